package redistest

import (
	"errors"
	"os"
)

// Persistent returns the args that make a server keep its keys over Kill and Restart: each write is in
// the append-only file, and that file on disk, before it is answered.
func Persistent() []string {
	return []string{"--appendonly", "yes", "--appendfsync", "always"}
}

// Restart starts a killed server again on the same port, with the keys that it finds in its directory, and
// waits until it answers. Without args that turn persistence on there are none.
func (s *Server) Restart() error {
	return s.restart("restart", func() error { return nil })
}

// RestartEmpty is Restart after the loss of everything in the server's directory: the server comes back
// without a key, whatever its args. A directory named by args of the caller's own is left as it is.
func (s *Server) RestartEmpty() error {
	return s.restart("restart empty", func() error {
		if err := os.RemoveAll(s.dir); err != nil {
			return err
		}
		return os.Mkdir(s.dir, 0o700)
	})
}

func (s *Server) restart(verb string, prepare func() error) error {
	s.ops.Lock()
	defer s.ops.Unlock()
	if s.stopped {
		return s.done(verb, errStopped)
	}
	if p := s.process.Load(); p != nil && p.running() {
		return s.done(verb, errors.New("it still runs, kill it first"))
	}
	if err := prepare(); err != nil {
		return s.done(verb, err)
	}
	return s.done(verb, s.start())
}
