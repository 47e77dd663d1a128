package torture

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os/exec"
	"strings"
	"time"
)

// start runs the command and waits until its port answers.
func (p *process) start(ctx context.Context) error {
	if p.answers(ctx) {
		return fmt.Errorf("%s answers already, before the command was started; stop the other process or give no command", p.url)
	}
	p.cmd = exec.Command(p.command[0], p.command[1:]...) //nolint:gosec // the user's own command
	p.cmd.Stdout, p.cmd.Stderr = &p.last, &p.last
	p.cmd.WaitDelay = time.Second // for a child that holds the output open
	apart(p.cmd)
	if err := p.cmd.Start(); err != nil {
		return fmt.Errorf("the command cannot be started: %w", err)
	}
	ended := make(chan struct{})
	p.ended = ended
	go func(cmd *exec.Cmd) {
		_ = cmd.Wait()
		close(ended)
	}(p.cmd)
	ctx, cancel := context.WithTimeout(ctx, p.within)
	defer cancel()
	for !p.answers(ctx) {
		select {
		case <-ended:
			return fmt.Errorf("the command ended before %s answered: %s", p.url, p.last.text())
		default:
		}
		if !rest(ctx, 20*time.Millisecond) {
			p.stop()
			return fmt.Errorf("%s does not answer %v after the command was started: %s", p.url, p.within, p.last.text())
		}
	}
	return nil
}

// answers reports whether the port of the URL accepts connections.
func (p *process) answers(ctx context.Context) bool {
	conn, err := dial(ctx, p.url)
	if err == nil {
		_ = conn.Close()
	}
	return err == nil
}

// dial connects to the host of a URL.
func dial(ctx context.Context, target string) (net.Conn, error) {
	u, err := url.Parse(target)
	if err != nil {
		return nil, err
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"https": "443"}[u.Scheme]
		if port == "" {
			port = "80"
		}
	}
	var d net.Dialer
	return d.DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
}

// kill ends the whole process group at once, as a power cut would, and waits for its end.
func (p *process) kill() {
	kill(p.cmd)
	<-p.ended
}

// restart starts the command again after kill.
func (p *process) restart(ctx context.Context) error {
	for p.answers(ctx) { // a child of it may still listen
		if !rest(ctx, 20*time.Millisecond) {
			return errors.New("the killed receiver still listens")
		}
	}
	return p.start(ctx)
}

// stop asks the process group to end, and kills it if it does not.
func (p *process) stop() {
	if p.cmd == nil {
		return
	}
	terminate(p.cmd)
	timer := time.NewTimer(5 * time.Second)
	defer timer.Stop()
	select {
	case <-p.ended:
	case <-timer.C:
	}
	p.kill() // also its children
}

const tailSize = 2 << 10

func (t *tail) Write(text []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = append(t.last, text...)
	t.last = bytes.Clone(t.last[max(0, len(t.last)-tailSize):])
	return len(text), nil
}

func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(string(t.last)), "\n")
	return strings.Join(lines[max(0, len(lines)-5):], "; ")
}

// rest waits; false: the case is stopped.
func rest(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
