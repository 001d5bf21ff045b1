package wire

import "fmt"

// Kind tells what a Value is.
type Kind uint8

const (
	Nil     Kind = iota // the null reply, of either form
	Int                 // :1
	Text                // $2 ..
	Status              // +OK
	Failure             // -ERR ..
	List                // *2 ..
)

// Value is one reply of a server. Only the fields of its Kind are set.
type Value struct {
	Kind Kind
	Int  int64
	Text string  // of a Text, Status or Failure
	List []Value // of a List
}

// Error is what a server said instead of a reply: "OOM command not allowed …". The method RedisError makes
// it an error of the client library's kind too.
type Error string

func (e Error) Error() string { return string(e) }

// RedisError marks the error as one of the server.
func (Error) RedisError() {}

// Err returns the error that the server answered with, nil for any other reply.
func (v Value) Err() error {
	if v.Kind != Failure {
		return nil
	}
	return Error(v.Text)
}

// Any returns a reply as the client library does: nil, int64, string, []any; an Error for a Failure.
func (v Value) Any() any {
	switch v.Kind {
	case Int:
		return v.Int
	case Text, Status:
		return v.Text
	case Failure:
		return Error(v.Text)
	case List:
		list := make([]any, len(v.List))
		for i, e := range v.List {
			list[i] = e.Any()
		}
		return list
	}
	return nil
}

// Of is the inverse of Any, for what the client library has read. It reports false for kinds that no command of
// ours is answered with.
func Of(reply any) (Value, bool) {
	switch r := reply.(type) {
	case nil:
		return Value{}, true
	case int64:
		return Value{Kind: Int, Int: r}, true
	case string:
		return Value{Kind: Text, Text: r}, true
	case []any:
		list := make([]Value, len(r))
		for i, e := range r {
			v, ok := Of(e)
			if !ok {
				return Value{}, false
			}
			list[i] = v
		}
		return Value{Kind: List, List: list}, true
	case map[any]any: // RESP3 says so what is a list of names and values in RESP2
		pairs := make([]any, 0, 2*len(r))
		for name, value := range r {
			pairs = append(pairs, name, value)
		}
		return Of(pairs)
	case error:
		return Value{Kind: Failure, Text: r.Error()}, true
	}
	return Value{}, false
}

// String shows a reply to people. It may be as long as the reply.
func (v Value) String() string {
	switch v.Kind {
	case Nil:
		return "null"
	case List:
		return fmt.Sprint(v.List)
	case Int:
		return fmt.Sprint(v.Int)
	}
	return v.Text
}

// Numbers reads the integers that a list begins with into room, and returns how many there are.
func (v Value) numbers(room *[4]int64) (n int) {
	if v.Kind != List {
		return 0
	}
	for n < len(v.List) && n < len(room) && v.List[n].Kind == Int {
		room[n] = v.List[n].Int
		n++
	}
	return n
}
