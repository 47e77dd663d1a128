//go:build linux

// Package receivers proves the kits for receivers from the outside: it starts any program with the
// interface of a test receiver (sdk/README.md), sends events to it as a sender would, and kills it.
//
// A program is a Row: data about a language. Databases are private ones on loopback, and every
// receiver gets an empty one. It does not prove how a kit's functions behave one by one: each kit's
// own tests do.
package receivers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel/e2e/process"
	"github.com/grapnelhq/grapnel/sign"
)

// The secrets of the two sources of a test receiver.
const (
	Secret  = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	Secret2 = "whsec_5WbX5kEWLlfzsGNjH64I8lOOqUB6e8FH"
)

// Receiver is one test receiver over its lives: an address, a database, and one process after
// another.
type Receiver struct {
	Base     string        // its URL, without a path
	Patience time.Duration // for an effect after its event was answered

	dir  string
	cmd  []string
	env  []string
	now  int64 // seconds that its clock is ahead; every life is told
	run  *process.Process
	hold bool // this life holds events
	http *http.Client
}

// New prepares a receiver. Its output goes into a file in dir.
func New(dir string, command []string, env ...string) (*Receiver, error) {
	addr, err := process.UnusedAddress()
	if err != nil {
		return nil, err
	}
	_, port, _ := strings.Cut(addr, ":")
	r := &Receiver{Base: "http://" + addr, Patience: 20 * time.Second, dir: dir, cmd: command, http: &http.Client{
		Timeout:   40 * time.Second,
		Transport: &http.Transport{MaxIdleConnsPerHost: 64, MaxConnsPerHost: 64},
	}}
	r.env = append([]string{"PORT=" + port, "SECRET=" + Secret, "SECRET2=" + Secret2, "TMPDIR=" + dir}, env...)
	return r, nil
}

// Command is the command line of a life, with its environment.
func (r *Receiver) Command() []string {
	return slices.Concat([]string{"env"}, r.env, r.cmd)
}

// Start starts the next life and waits until it listens.
func (r *Receiver) Start(ctx context.Context) error {
	log, err := os.OpenFile(filepath.Join(r.dir, "receiver.log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(r.cmd[0], r.cmd[1:]...) //nolint:gosec // a row names the program
	cmd.Env = append(os.Environ(), r.env...)
	cmd.Stdout, cmd.Stderr = log, log
	r.hold = false
	if r.run, err = process.Start(cmd); err != nil {
		return err
	}
	if err := r.listens(ctx); err != nil {
		r.Kill()
		return fmt.Errorf("%s does not start: %w\n%s", strings.Join(r.cmd, " "), err, r.Words())
	}
	if r.now == 0 {
		return nil
	}
	return r.tell(ctx)
}

// listens waits until the receiver accepts connections.
func (r *Receiver) listens(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for {
		if conn, err := new(net.Dialer).DialContext(ctx, "tcp", strings.TrimPrefix(r.Base, "http://")); err == nil {
			return conn.Close()
		}
		select {
		case <-again.C:
		case <-r.run.Done:
			return errors.New("its process has ended")
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Kill ends the process without warning.
func (r *Receiver) Kill() { r.run.Kill() }

// Stop asks the process to end and waits for its end.
func (r *Receiver) Stop() {
	if r.run != nil {
		r.http.CloseIdleConnections() // a receiver may wait for the first request of one
		r.run.Stop()
	}
}

// Hold keeps each event of this life that reaches a step from now on there.
func (r *Receiver) Hold(ctx context.Context, step string) error {
	r.hold = true
	_, err := r.call(ctx, "/_hold?step="+step)
	return err
}

// Held returns the events at the step of Hold. They stay there until the process is killed.
func (r *Receiver) Held(ctx context.Context) (ids []string, err error) {
	err = r.ask(ctx, "/_hold", &ids)
	return ids, err
}

// Words is the end of the process's output.
func (r *Receiver) Words() string {
	text, err := os.ReadFile(filepath.Join(r.dir, "receiver.log"))
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-2000):])
}

// Advance sets the receiver's clock and the sender's forward, so that leases end without waiting.
func (r *Receiver) Advance(ctx context.Context, by time.Duration) error {
	r.now += int64(by / time.Second)
	return r.tell(ctx)
}

func (r *Receiver) tell(ctx context.Context) error {
	_, err := r.call(ctx, "/_clock?now="+fmt.Sprint(r.Now().Unix()))
	return err
}

// Now is the time of the receiver's clock.
func (r *Receiver) Now() time.Time { return time.Now().Add(time.Duration(r.now) * time.Second) }

// call posts to one of the receiver's own routes.
func (r *Receiver) call(ctx context.Context, path string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.Base+path, nil)
	if err != nil {
		return "", err
	}
	_, text, err := r.do(req)
	return text, err
}

func (r *Receiver) do(req *http.Request) (int, string, error) {
	req.Close = r.hold // the server reads no second request where a handler holds its event after the answer
	resp, err := r.http.Do(req)
	if err != nil {
		return 0, "", err
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	return resp.StatusCode, string(text), errors.Join(err, resp.Body.Close())
}

// Send makes one attempt to deliver an event to the source acme, and returns the answer's status.
// All attempts have the same body.
func (r *Receiver) Send(ctx context.Context, id string) (int, string, error) {
	at := r.Now()
	body := fmt.Appendf(nil, `{"type":"payment.received","timestamp":"2026-01-02T03:04:05Z","data":{"invoice":"inv_%s","amount":500}}`, id)
	signature, err := sign.Sign(id, at, body, Secret)
	if err != nil {
		return 0, "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.Base+"/hooks", bytes.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	for name, value := range map[string]string{"Content-Type": "application/json", "webhook-id": id,
		"webhook-timestamp": fmt.Sprint(at.Unix()), "webhook-signature": signature} {
		req.Header.Set(name, value)
	}
	return r.do(req)
}

// Effects asks the receiver how many effects an event had.
func (r *Receiver) Effects(ctx context.Context, id string) (int, error) {
	var answer struct{ Effects int }
	err := r.ask(ctx, "/_probe?event="+url.QueryEscape(id), &answer)
	return answer.Effects, err
}

// ask gets a JSON answer from one of the receiver's own routes.
func (r *Receiver) ask(ctx context.Context, path string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.Base+path, nil)
	if err != nil {
		return err
	}
	status, text, err := r.do(req)
	if err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(text), into); err != nil || status != http.StatusOK {
		return fmt.Errorf("%s answers %d %q: %w", path, status, text, err)
	}
	return nil
}
