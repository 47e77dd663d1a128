//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/grapnelhq/grapnel/e2e/process"
)

// bearer is the key of both sides; nothing but loopback ever sees it.
const bearer = "grp_bench-only-on-loopback"

// server is the real binary at work.
type server struct{ *process.Server }

// prepare makes the directory of a measurement, inspects its disk, and builds the binary unless one
// is named. With stays, a directory that is named is used as it is, and remove leaves it. Without a
// name it is below the current directory, since temporary directories are often in memory.
func (s *settings) prepare(name string, stays bool) (dir string, d disk, remove func() error, err error) {
	// PostgreSQL works in its own directory, so the path of its socket is absolute.
	at, err := filepath.Abs(s.dir)
	if err != nil {
		return "", d, nil, err
	}
	made := ""
	if stays && s.dir != "" {
		dir, err = at, os.MkdirAll(at, 0o700)
	} else {
		made, err = os.MkdirTemp(at, "grapnel-"+name+"-")
		dir = made
	}
	remove = func() error { return os.RemoveAll(made) } // without a name it removes nothing
	if err == nil {
		d, err = inspect(dir)
	}
	if err == nil && s.binary == "" {
		s.binary, err = process.Build(dir)
	}
	if err != nil {
		err = errors.Join(err, remove())
	}
	return dir, d, remove, err
}

// startServer runs the binary with a new database in dir, and creates the endpoints.
func startServer(ctx context.Context, s settings, dir string, urls []string) (*server, error) {
	p, err := process.Serve(ctx, s.binary, bearer, dir,
		append([]string{"--store", "sqlite:" + filepath.Join(dir, "grapnel.db"), "--metrics-open"}, s.flags...)...)
	if err != nil {
		return nil, err
	}
	g := &server{p}
	for _, url := range urls {
		in := map[string]any{"url": url, "max_concurrency": s.workers}
		if s.together {
			in["format"] = "batch"
		}
		if err := g.send(ctx, http.MethodPost, "/v1/endpoints", in, nil); err != nil {
			g.Stop()
			return nil, fmt.Errorf("%w\n%s", err, g.Words())
		}
	}
	return g, nil
}

// send makes a request to the API, with in as its body unless that is nil. Its answer is read to
// its end, and decoded into out unless that is nil.
func (g *server) send(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, g.URL()+path, body)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+bearer)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	answer, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return err
	}
	if resp.StatusCode/100 != 2 {
		return &refused{status: resp.StatusCode, text: fmt.Sprintf("%s %s was answered %s: %s", method, path, resp.Status, answer)}
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(answer, out)
}

// refused is an answer other than 2xx.
type refused struct {
	status int
	text   string
}

func (r *refused) Error() string { return r.text }

// cpu is the processor time that the server has used, as the kernel counts it.
func (g *server) cpu() (time.Duration, error) {
	p, err := lookAt(g.PID)
	return p.used, err
}

// written is how many bytes the server has written to devices.
func (g *server) written() (int64, error) { return writtenBy(g.PID) }

func (g *server) memory() (memory, error) { return memoryOf(g.PID) }
