package sim

import (
	"fmt"

	words "github.com/redlock-go/redlock/internal/wire"
)

// parseCommand takes one command off the front of data; ok is false while it is incomplete.
func parseCommand(data []byte) (args []string, rest []byte, ok bool) {
	args, rest, ok, err := words.ParseCommand(data)
	if err != nil {
		panic(fmt.Sprintf("sim: a client sent %v", err))
	}
	return args, rest, ok
}

// status and failure are replies that are neither numbers, strings, arrays nor nil.
type (
	status  string
	failure string
)

// parseReply reads one reply of a server.
func parseReply(data []byte) (reply any, rest []byte) {
	v, rest, err := words.ParseReply(data)
	if err != nil {
		panic(fmt.Sprintf("sim: a server sent %q: %v", data, err))
	}
	return fromWire(v), rest
}

func fromWire(v words.Value) any {
	switch v.Kind {
	case words.Int:
		return int(v.Int)
	case words.Text:
		return v.Text
	case words.Status:
		return status(v.Text)
	case words.Failure:
		return failure(v.Text)
	case words.List:
		items := make([]any, len(v.List))
		for i, e := range v.List {
			items[i] = fromWire(e)
		}
		return items
	}
	return nil
}

func toWire(reply any) words.Value {
	switch reply := reply.(type) {
	case nil:
		return words.Value{}
	case int:
		return words.Value{Kind: words.Int, Int: int64(reply)}
	case status:
		return words.Value{Kind: words.Status, Text: string(reply)}
	case failure:
		return words.Value{Kind: words.Failure, Text: string(reply)}
	case string:
		return words.Value{Kind: words.Text, Text: reply}
	case []any:
		v := words.Value{Kind: words.List}
		for _, item := range reply {
			v.List = append(v.List, toWire(item))
		}
		return v
	default:
		panic(fmt.Sprintf("sim: no reply can be %T", reply))
	}
}

// appendReply is the inverse of parseReply.
func appendReply(b []byte, reply any) []byte { return words.AppendReply(b, toWire(reply)) }
