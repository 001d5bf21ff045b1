package redistest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
)

// keeperAddress is the environment variable with the address of a keeper, see Keep.
const keeperAddress = "REDLOCK_KEEPER"

// startKept is startProcess by a keeper, which looks for the program itself.
func startKept(keeper string, args []string) (*process, error) {
	conn, err := net.Dial("tcp", keeper)
	if err != nil {
		return nil, fmt.Errorf("the keeper of %s: %w", keeperAddress, err)
	}
	from, to := json.NewDecoder(conn), json.NewEncoder(conn)
	var started report
	err = errors.Join(to.Encode(args), from.Decode(&started))
	if err == nil && started.Error != "" {
		err = errors.New(started.Error)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the keeper of %s: %w", keeperAddress, err), conn.Close())
	}
	p := &process{pid: started.PID, output: new(tail), exited: make(chan struct{})}
	answers := make(chan report)
	p.control = func(o order) error { return p.tell(to, answers, o) }
	go func() {
		defer close(p.exited)
		defer conn.Close()
		p.err = p.hear(from, answers)
	}()
	return p, nil
}

// tell gives an order to the keeper, and returns its answer. The end of the process is an answer, too.
func (p *process) tell(to *json.Encoder, answers <-chan report, o order) error {
	err := to.Encode(o)
	select {
	case answer := <-answers:
		if err = nil; answer.Error != "" {
			err = errors.New(answer.Error)
		}
		return err
	case <-p.exited:
		if o == toEnd {
			return nil
		}
		return errors.Join(errors.New("it has ended"), err)
	}
}

// hear passes the answers on until the process has ended, and returns how.
func (p *process) hear(from *json.Decoder, answers chan<- report) error {
	for {
		var r report
		if err := from.Decode(&r); err != nil {
			return fmt.Errorf("the keeper is gone: %w", err)
		}
		if !r.Ended {
			answers <- r
			continue
		}
		_, _ = io.WriteString(p.output, r.Output)
		if r.Error == "" {
			return nil
		}
		return errors.New(r.Error)
	}
}
