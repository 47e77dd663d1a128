//go:build linux

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/grapnelhq/grapnel/e2e/process"
)

// verbs are the functions of a role. Each takes and returns JSON.
type verbs map[string]func(in json.RawMessage) (any, error)

// taking is a verb with an argument.
func taking[In, Out any](do func(In) (Out, error)) func(json.RawMessage) (any, error) {
	return func(text json.RawMessage) (any, error) {
		var in In
		if err := json.Unmarshal(text, &in); err != nil {
			return nil, err
		}
		return do(in)
	}
}

// line is one question or answer between the orchestrator and a role, over the role's standard
// streams.
type line struct {
	Verb  string          `json:"verb,omitempty"`
	Body  json.RawMessage `json:"body,omitempty"`
	Error string          `json:"error,omitempty"`
}

// play answers questions until the other side closes the pipe, so that no role outlives the
// orchestrator.
func play(v verbs, in io.Reader, out io.Writer) int {
	v["cpu"] = func(json.RawMessage) (any, error) {
		var u syscall.Rusage
		err := syscall.Getrusage(syscall.RUSAGE_SELF, &u)
		return time.Duration(u.Utime.Nano() + u.Stime.Nano()), err
	}
	questions, answers := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var q, a line
		if err := questions.Decode(&q); err != nil {
			if errors.Is(err, io.EOF) {
				return 0
			}
			return 1
		}
		verb, ok := v[q.Verb]
		if !ok {
			verb = func(json.RawMessage) (any, error) { return nil, fmt.Errorf("unknown verb %q", q.Verb) }
		}
		body, err := verb(q.Body)
		if err == nil {
			a.Body, err = json.Marshal(body)
		}
		if err != nil {
			a.Error = err.Error()
		}
		if err := answers.Encode(a); err != nil {
			return 1
		}
	}
}

// role is a process of this program that plays one part.
type role struct {
	name      string
	cmd       *exec.Cmd
	in        io.WriteCloser
	questions *json.Encoder
	answers   *json.Decoder
}

func startRole(name string) (*role, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	r := &role{name: name, cmd: exec.Command(self, name)}
	r.cmd.Stderr = os.Stderr
	if r.in, err = r.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	r.questions, r.answers = json.NewEncoder(r.in), json.NewDecoder(bufio.NewReader(out))
	return r, r.cmd.Start()
}

// ask sends a question and decodes the answer into out, which may be nil.
func (r *role) ask(verb string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	if err := r.questions.Encode(line{Verb: verb, Body: body}); err != nil {
		return fmt.Errorf("asking the %s to %s: %w", r.name, verb, err)
	}
	var a line
	if err := r.answers.Decode(&a); err != nil {
		return fmt.Errorf("the %s did not answer %s: %w", r.name, verb, err)
	}
	if a.Error != "" {
		return fmt.Errorf("%s: %s: %s", r.name, verb, a.Error)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(a.Body, out)
}

func (r *role) cpu() (time.Duration, error) {
	var used time.Duration
	return used, r.ask("cpu", nil, &used)
}

// arrived waits until a sink that had received some deliveries before has received some more, and
// returns how many more it has.
func (r *role) arrived(ctx context.Context, within time.Duration, before, more int64) (got int64, err error) {
	err = process.Until(ctx, within, func() (bool, error) {
		var now int64
		err := r.ask("received", nil, &now)
		got = now - before
		return got >= more, err
	})
	return got, err
}

// stop ends the role by closing its input.
func (r *role) stop() {
	_ = r.in.Close()
	_ = r.cmd.Wait()
}
