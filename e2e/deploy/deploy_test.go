//go:build linux && dist

// Package deploy installs what a release consists of, as docs/deploy.md says, up to the first
// delivered event, restarts it, and looks whether everything is still there.
//
// It needs what `make dist` and `make image` have built, and a machine on which it is root.
package deploy

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// machine is a directory in which commands run as if they ran on a machine of their own.
type machine struct {
	dir string
	env []string
}

// stand in for programs that this machine may not have, or that would change it.
var stands = map[string]string{
	// A package is unpacked into a root of its own, and its unit's command runs there.
	"apt": `dpkg-deb -x "$2" root`,
	"systemctl": `case $1 in
stop|restart) kill "$(cat pid)"; while kill -0 "$(cat pid)" 2>/dev/null; do sleep 0.1; done;; esac
case $1 in start|restart)
	mkdir -p root/var/lib/grapnel/backups
	command=$(sed -n 's/^ExecStart=//p' root/usr/lib/systemd/system/grapnel.service)
	chroot root $command >>log 2>&1 & echo $! >pid;; esac`,
	"sudo": `while [[ $1 == *=* ]]; do export "$1"; shift; done
if [ "$1" = grapnel ]; then exec chroot root /usr/bin/"$@"; fi
exec "$@"`,
}

func newMachine(t *testing.T) machine {
	t.Helper()
	tree, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	m := machine{dir: t.TempDir()}
	for _, dir := range []string{m.dir, filepath.Dir(m.dir)} { // users of services pass through it
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	bin := filepath.Join(m.dir, "stands")
	m.run(t, fmt.Sprintf("mkdir %s && cp -r %s/compose*.yaml %s/deploy . && cp %[2]s/dist/grapnel_*_linux_amd64.* . && ln -s %[2]s/e2e/deploy/docker.py %[1]s/docker", bin, tree, tree))
	for name, script := range stands {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/bash\nset -e\n"+script+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	m.env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "DOCKER_STATE="+filepath.Join(m.dir, "docker"),
		"GRAPNEL_IMAGE=localhost/grapnel:dev", "GRAPNEL_EGRESS_ALLOW=127.0.0.0/8,10.213.0.0/24")
	return m
}

// try runs commands and returns their output.
func (m machine) try(t *testing.T, commands string) (string, error) {
	t.Helper()
	limit, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(limit, "bash", "-ec", commands)
	cmd.Dir, cmd.Env, cmd.WaitDelay = m.dir, m.env, time.Second
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState != nil && cmd.ProcessState.Success() {
		err = nil // a server in the background has the output still open
	}
	return string(out), err
}

func (m machine) run(t *testing.T, commands string) string {
	t.Helper()
	out, err := m.try(t, commands)
	if err != nil {
		t.Fatalf("%s\n%v\n%s", commands, err, out)
	}
	return out
}

// until repeats commands until their output contains a text.
func (m machine) until(t *testing.T, commands, text string) {
	t.Helper()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(2 * time.Minute); ; <-tick.C {
		out, err := m.try(t, commands)
		if err == nil && strings.Contains(out, text) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s does not say %q:\n%v\n%s", commands, text, err, out)
		}
	}
}

const (
	three = "docker compose -f compose.postgres.yaml "
	other = three + "exec grapnel-2 grapnel --server http://proxy:8420 "
)

// ends waits for the end of the server in the background.
const ends = "kill $(cat pid); while kill -0 $(cat pid) 2>/dev/null; do sleep 0.1; done\n"

// lives are how the ways of the page restart and end what they started, where their receiver is for
// them, and what else has to succeed. A way that is not here is one that the page names as not run.
var lives = map[string]struct{ restart, end, receiver, then string }{
	"archive": {ends + "./grapnel serve & echo $! >pid", ends, "127.0.0.1", ""},
	"deb":     {"sudo systemctl restart grapnel", "sudo systemctl stop grapnel", "127.0.0.1", ""},
	"image":   {"docker restart grapnel", "docker rm -f grapnel", "10.213.0.1", "docker exec grapnel grapnel version"},
	"compose": {"docker compose restart grapnel", "docker compose down", "10.213.0.1",
		"docker compose exec grapnel grapnel backup --store sqlite:/var/lib/grapnel/grapnel.db --to /var/lib/grapnel/copy.db"},
	// With a node less the others go on, and the proxy asks them.
	"compose, three nodes": {three + "restart grapnel-1 grapnel-2 grapnel-3", three + "down", "10.213.0.1",
		three + "stop grapnel-1\n" + other + "send invoice.paid -d '{\"amount\":100}'\n" +
			"until [ $(" + other + "deliveries list --status delivered -o name | wc -l) = 3 ]; do sleep 0.2; done"},
}

// TestFirstEvent goes every way of the table in docs/deploy.md.
func TestFirstEvent(t *testing.T) {
	page, err := os.ReadFile("../../docs/deploy.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "| way | start | call |\n|---|---|---|\n")
	secrets := regexp.MustCompile(`(?m)^    (printf 'POSTGRES(?:.|\n)*?>\.env)$`).FindStringSubmatch(string(page))
	_, rest, _ := strings.Cut(table, "```\nCALL")
	calls, _, _ := strings.Cut("CALL"+rest, "```")
	lines := strings.Split(strings.TrimSpace(calls), "\n")
	if len(lines) != 3 || secrets == nil {
		t.Fatalf("the page has changed: %q, %q", lines, secrets)
	}
	gone := 0
	for row := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(row), "|"), " | ")
		if len(cells) != 3 {
			break
		}
		way := strings.TrimSpace(cells[0])
		life, runs := lives[way]
		if !runs {
			continue
		}
		gone++
		t.Run(way, func(t *testing.T) {
			m := newMachine(t)
			var got atomic.Int64
			listener, err := net.Listen("tcp", "0.0.0.0:0")
			if err != nil {
				t.Fatal(err)
			}
			receiver := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				if body, _ := io.ReadAll(r.Body); strings.Contains(string(body), `"amount":100`) && r.Header.Get("webhook-signature") != "" {
					got.Add(1)
				}
			}), ReadHeaderTimeout: time.Minute}
			go func() { _ = receiver.Serve(listener) }()
			t.Cleanup(func() { _ = receiver.Close() })
			url := fmt.Sprintf("http://%s:%d/hooks", life.receiver, listener.Addr().(*net.TCPAddr).Port)

			call := strings.Trim(strings.TrimSpace(cells[2]), "`")
			start := strings.ReplaceAll(strings.ReplaceAll(strings.TrimSpace(cells[1]), "`<br>`", "\n"), "`", "")
			start = strings.ReplaceAll(start, "./grapnel serve &", "./grapnel serve >>log 2>&1 & echo $! >pid")
			start = regexp.MustCompile(`(\./)?grapnel_0\.1\.0_linux_amd64`).ReplaceAllString(start, "./$$(basename grapnel_*_linux_amd64.deb .deb)")
			if strings.Contains(start, "postgres") {
				m.run(t, secrets[1])
			}
			t.Cleanup(func() {
				out, _ := m.try(t, life.end)
				if t.Failed() {
					logs, _ := exec.Command("bash", "-c", "tail -n 20 "+m.dir+"/log "+m.dir+"/docker/*.log").CombinedOutput()
					t.Logf("%s\n%s", out, logs)
				}
			})
			began := time.Now()
			m.run(t, start)
			m.until(t, call+" health", "ok")
			for _, line := range lines[:2] {
				m.run(t, strings.ReplaceAll(strings.Replace(line, "CALL", call, 1), "https://example.com/hooks", url))
			}
			list := strings.Replace(lines[2], "CALL", call, 1) + " -o name"
			m.until(t, list, "dlv_")
			if got.Load() != 1 {
				t.Errorf("the receiver got %d requests", got.Load())
			}
			t.Logf("%s: first event delivered after %s", way, time.Since(began).Round(100*time.Millisecond))
			was := m.run(t, list)
			m.run(t, strings.ReplaceAll(life.restart, "./grapnel serve &", "./grapnel serve >>log 2>&1 &"))
			m.until(t, call+" health", "ok")
			m.until(t, list, was)
			m.run(t, strings.Replace(lines[1], "CALL", call, 1))
			m.until(t, list+" | wc -l", "2")
			m.run(t, life.then)
		})
	}
	if gone != len(lives) {
		t.Errorf("the page has %d of the ways %v", gone, lives)
	}
}

// TestTheImageIsSmall: below 50 MB, not root, with a check of health.
func TestTheImageIsSmall(t *testing.T) {
	inspect := func(format string) string {
		out, err := exec.CommandContext(t.Context(), "buildah", "--storage-driver", "vfs", "inspect", "--type", "image", "--format", format, "localhost/grapnel:dev").CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return strings.TrimSpace(string(out))
	}
	if got := inspect("{{.Docker.Config.User}} {{.Docker.Config.Healthcheck.Test}} {{len .Docker.RootFS.DiffIDs}}"); got != "65532:65532 [CMD /usr/bin/grapnel health] 1" {
		t.Errorf("user, check and number of layers: %s", got)
	}
	out, err := exec.CommandContext(t.Context(), "buildah", "--storage-driver", "vfs", "images", "--format", "{{.Size}}", "localhost/grapnel:dev").Output()
	var size float64
	var unit string
	if n, _ := fmt.Sscan(string(out), &size, &unit); err != nil || n != 2 || unit != "MB" || size >= 50 {
		t.Errorf("size: %s %v", out, err)
	}
	t.Logf("the image has %s", strings.TrimSpace(string(out)))
}
