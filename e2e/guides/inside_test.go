//go:build linux

package guides

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/grapnelhq/grapnel/e2e/process"
)

// patience is how long a page waits for an output or an address.
const patience = 45 * time.Second

// session executes a page.
type session struct {
	dir   string // of the page's files
	apart string // of files that are none of the page's
	in    io.Writer
	out   *bufio.Reader
	last  map[string]string // ids, by kind
	runs  map[string]int    // process groups in the background, by address
	files int
}

// inside executes a page. Its process is the first one of the namespaces, so the others end with
// it.
func inside(page string) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	unseen, err := os.ReadFile(os.Getenv(unseenVariable))
	if err != nil {
		return err
	}
	steps, err := parse(string(text), sections(string(unseen)))
	if err != nil {
		return err
	}
	s := &session{apart: filepath.Dir(page), last: map[string]string{}, runs: map[string]int{}}
	if s.dir, err = os.Getwd(); err != nil {
		return err
	}
	if err := machine(s.apart, string(text)+string(unseen)); err != nil {
		return err
	}
	if err := s.starts(); err != nil {
		return err
	}
	if !slices.ContainsFunc(steps, ownServer) {
		if err := s.takes(step{text: "grapnel serve", behind: true, listen: "127.0.0.1:8420"}); err != nil {
			return err
		}
	}
	for _, st := range steps {
		if err := s.takes(st); err != nil {
			return fmt.Errorf("line %d: %w%s", st.line, err, s.logs())
		}
	}
	return nil
}

// ownServer says whether a step starts a server.
func ownServer(st step) bool {
	return st.left == "" && (strings.Contains(st.text, "grapnel serve") || strings.Contains(st.text, "grapnel dev"))
}

// starts starts the page's bash.
func (s *session) starts() error {
	cmd := exec.Command("bash")
	cmd.Env = append(os.Environ(), "HOME="+s.dir, "PATH="+os.Getenv(binVariable)+":"+os.Getenv("PATH")+":/usr/sbin",
		"SSL_CERT_FILE="+certificate(s.apart), "CURL_CA_BUNDLE="+certificate(s.apart), "GRAPNEL_EGRESS_ALLOW=127.0.0.0/8",
		"GOFLAGS=-mod=mod "+os.Getenv("GOFLAGS"), "GOPROXY=off", "NO_COLOR=1")
	cmd.Stderr = os.Stdout
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	s.in, s.out = in, bufio.NewReader(out)
	return cmd.Start()
}

// takes executes one step.
func (s *session) takes(st step) error {
	switch {
	case st.left != "":
		return nil
	case st.file != "":
		file := filepath.Join(s.dir, st.file) // an absolute name too
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			return err
		}
		return os.WriteFile(file, []byte(st.text), 0o600)
	case st.behind:
		return s.background(st)
	}
	calls := st.calls
	if calls == nil {
		calls = []call{{st.text, ""}}
	}
	for _, c := range calls {
		if err := s.calls(c, st.until); err != nil {
			return err
		}
	}
	return nil
}

// calls runs a command and compares its output.
func (s *session) calls(c call, again bool) error {
	text, err := fill(s.last, c.command)
	if err != nil {
		return err
	}
	way := "set -e\n. %s </dev/null >%s 2>%s\necho 0\n"
	if again {
		way = "set +e\n(set -e; . %s) </dev/null >%s 2>%s\necho $?\n"
	}
	for end := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		code, output, rest, err := s.asks(text, way)
		if err == nil && code == "0" && matches(output, c.output) {
			learn(s.last, rest+output)
			return nil
		}
		if !again || err != nil || time.Now().After(end) {
			return errors.Join(fmt.Errorf("%s\nhas the exit code %q and printed\n%s%s\nnot\n%s", text, code, rest, output, c.output), err)
		}
	}
}

// asks gives commands to bash, in a file. It returns their exit code, and what they printed on
// stdout and stderr.
func (s *session) asks(text, way string) (code, output, rest string, err error) {
	s.files++
	file := filepath.Join(s.apart, "step"+strconv.Itoa(s.files))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return "", "", "", err
	}
	if _, err := fmt.Fprintf(s.in, way, file, file+".out", file+".err"); err != nil {
		return "", "", "", err
	}
	answered := make(chan struct{})
	go func() {
		code, err = s.out.ReadString('\n')
		close(answered)
	}()
	select {
	case <-answered:
	case <-time.After(patience):
		return "no end", logged(file + ".out"), logged(file + ".err"), nil
	}
	if errors.Is(err, io.EOF) {
		err = nil // the command failed, and with it bash ended
	}
	out, unread := os.ReadFile(file + ".out")
	said, unheard := os.ReadFile(file + ".err")
	return strings.TrimSpace(code), string(out), string(said), errors.Join(err, unread, unheard)
}

// logged is the text of a file that a command may still write.
func logged(file string) string {
	text, _ := os.ReadFile(file)
	return string(text)
}

// background runs commands until the page ends, or another step takes their address.
func (s *session) background(st step) error {
	text, err := fill(s.last, st.text)
	if err != nil {
		return err
	}
	if group, ok := s.runs[st.listen]; ok && st.listen != "" {
		if err := syscall.Kill(-group, syscall.SIGTERM); err != nil {
			return err
		}
		if err := answers(st.listen, false); err != nil {
			return err
		}
	}
	log := filepath.Join(s.apart, strings.ReplaceAll(st.listen, ":", "-")+".log")
	_, group, _, err := s.asks(text, "set -m\n(set -e; . %s) </dev/null >>"+log+" 2>&1 &\nset +m\necho $! >%s 2>%s\necho 0\n")
	if err != nil {
		return err
	}
	if s.runs[st.listen], err = strconv.Atoi(strings.TrimSpace(group)); err != nil {
		return err
	}
	if st.listen == "" {
		return nil
	}
	return answers(st.listen, true)
}

// here follows no redirects: what answers is there.
var here = http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

// answers waits until a server answers at an address and, if it is Grapnel's, is ready; or until
// nothing answers there.
func answers(address string, want bool) error {
	err := process.Until(context.Background(), patience, func() (bool, error) {
		resp, err := here.Get("http://" + address + "/readyz")
		if err != nil {
			return !want, nil //nolint:nilerr // nothing listens, or not yet
		}
		return want && resp.StatusCode != http.StatusServiceUnavailable, resp.Body.Close()
	})
	if err != nil {
		return fmt.Errorf("connections to %s: wanted %t: %w", address, want, err)
	}
	return nil
}

// logs are the ends of what ran in the background, and what the stand-ins got.
func (s *session) logs() (all string) {
	files, _ := filepath.Glob(filepath.Join(s.apart, "*.log"))
	for _, file := range append(files, filepath.Join(s.dir, received)) {
		if text, err := os.ReadFile(file); err == nil {
			all += fmt.Sprintf("\n%s:\n%s", filepath.Base(file), text[max(0, len(text)-3000):])
		}
	}
	return all
}
