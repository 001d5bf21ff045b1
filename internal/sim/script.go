package sim

import (
	"crypto/sha1"
	"encoding/hex"
	"strconv"
	"strings"
	"sync"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"
)

// scripts runs Lua on a node: the very text that was loaded, with redis.call going to the
// node's data. miniredis could do that too, but sets up an interpreter for every call, which
// takes more time than all the rest of a run.
type scripts struct {
	loaded map[string]script       // by SHA-1
	call   func(args []string) any // runs one command, returns its reply
}

type script struct {
	proto   *lua.FunctionProto
	deletes bool // locks
	sets    bool // locks, or their lives
	enters  bool // waiting lists
}

// interpreter is a Lua state that many nodes use one after the other.
type interpreter struct {
	state *lua.LState
	call  func(args []string) any
}

var (
	compiled     sync.Map // script text → *lua.FunctionProto
	interpreters = sync.Pool{New: func() any { return newInterpreter() }}
)

func newInterpreter() *interpreter {
	in := &interpreter{state: lua.NewState(lua.Options{SkipOpenLibs: true})}
	for name, open := range map[string]lua.LGFunction{
		lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable,
		lua.StringLibName: lua.OpenString, lua.MathLibName: lua.OpenMath,
	} {
		in.state.Push(in.state.NewFunction(open))
		in.state.Push(lua.LString(name))
		in.state.Call(1, 0)
	}
	in.state.SetGlobal("redis", in.state.SetFuncs(in.state.NewTable(), map[string]lua.LGFunction{
		"call": func(l *lua.LState) int {
			reply := in.command(l)
			if f, ok := reply.(failure); ok {
				l.RaiseError("%s", string(f))
			}
			l.Push(toLua(l, reply))
			return 1
		},
		"pcall": func(l *lua.LState) int {
			l.Push(toLua(l, in.command(l)))
			return 1
		},
		"replicate_commands": func(l *lua.LState) int {
			l.Push(lua.LTrue)
			return 1
		},
	}))
	return in
}

func (in *interpreter) command(l *lua.LState) any {
	args := make([]string, l.GetTop())
	for i := range args {
		args[i] = l.CheckString(i + 1)
	}
	return in.call(args)
}

// load is SCRIPT LOAD.
func (s *scripts) load(text string) any {
	proto, ok := compiled.Load(text)
	if !ok {
		chunk, err := parse.Parse(strings.NewReader(text), "script")
		if err != nil {
			return failure("ERR " + err.Error())
		}
		p, err := lua.Compile(chunk, "script")
		if err != nil {
			return failure("ERR " + err.Error())
		}
		proto, _ = compiled.LoadOrStore(text, p)
	}
	sum := sha1.Sum([]byte(text))
	sha := hex.EncodeToString(sum[:])
	calls := func(command string) bool { return strings.Contains(text, "'"+command+"'") }
	s.loaded[sha] = script{proto.(*lua.FunctionProto), calls("DEL"), calls("PEXPIRE"), calls("ZADD")}
	return sha
}

// evalsha is EVALSHA with args = sha, number of keys, keys, other arguments.
func (s *scripts) evalsha(args []string) any {
	script, ok := s.loaded[args[0]]
	if !ok {
		return failure("NOSCRIPT No matching script. Please use EVAL.")
	}
	keys, err := strconv.Atoi(args[1])
	if err != nil || keys < 0 || keys > len(args)-2 {
		return failure("ERR Number of keys can't be greater than number of args")
	}
	in := interpreters.Get().(*interpreter)
	defer interpreters.Put(in)
	in.call = s.call
	l := in.state
	defer l.SetTop(0)
	l.SetGlobal("KEYS", table(l, args[2:2+keys]))
	l.SetGlobal("ARGV", table(l, args[2+keys:]))
	l.Push(l.NewFunctionFromProto(script.proto))
	if err := l.PCall(0, 1, nil); err != nil {
		return failure("ERR " + strings.ReplaceAll(err.Error(), "\n", " "))
	}
	return fromLua(l.Get(-1))
}

func table(l *lua.LState, items []string) *lua.LTable {
	t := l.CreateTable(len(items), 0)
	for _, s := range items {
		t.Append(lua.LString(s))
	}
	return t
}

// toLua and fromLua follow the conversion table of the Redis documentation.
func toLua(l *lua.LState, reply any) lua.LValue {
	switch reply := reply.(type) {
	case int:
		return lua.LNumber(reply)
	case string:
		return lua.LString(reply)
	case status:
		return field(l, "ok", string(reply))
	case failure:
		return field(l, "err", string(reply))
	case []any:
		t := l.CreateTable(len(reply), 0)
		for _, item := range reply {
			t.Append(toLua(l, item))
		}
		return t
	}
	return lua.LFalse
}

func field(l *lua.LState, name, value string) *lua.LTable {
	t := l.CreateTable(0, 1)
	t.RawSetString(name, lua.LString(value))
	return t
}

func fromLua(value lua.LValue) any {
	switch value := value.(type) {
	case lua.LNumber:
		return int(value)
	case lua.LString:
		return string(value)
	case lua.LBool:
		if value {
			return 1
		}
	case *lua.LTable:
		if ok := value.RawGetString("ok"); ok != lua.LNil {
			return status(ok.String())
		}
		if err := value.RawGetString("err"); err != lua.LNil {
			return failure(err.String())
		}
		items := []any{}
		for i := 1; value.RawGetInt(i) != lua.LNil; i++ {
			items = append(items, fromLua(value.RawGetInt(i)))
		}
		return items
	}
	return nil
}
