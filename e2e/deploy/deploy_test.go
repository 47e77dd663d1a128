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

// sudo runs a command in the Debian whose systemd-nspawn is the process in the file pid.
const sudo = `#!/bin/bash
exec nsenter --target $(cat /proc/$(cat pid)/task/*/children) --all -- sh -c 'cd /srv && exec "$@"' sh env "$@"
`

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
	m.run(t, fmt.Sprintf("mkdir %s && cp -r %s/compose*.yaml %[2]s/deploy %[2]s/dist/grapnel_*_linux_amd64.* %[2]s/e2e/deploy/unit.sh .\n"+
		"for name in docker helm kubectl; do ln -s %[2]s/e2e/deploy/docker.py %[1]s/$name; done", bin, tree))
	if err := os.WriteFile(filepath.Join(bin, "sudo"), []byte(sudo), 0o700); err != nil {
		t.Fatal(err)
	}
	m.env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "DOCKER_STATE="+filepath.Join(m.dir, "docker"),
		"HELM="+tree+"/bin/tools/helm", "DEBIAN="+tree+"/bin/bookworm", "GRAPNEL_IMAGE=localhost/grapnel:dev", "GRAPNEL_EGRESS_ALLOW=127.0.0.0/8,10.213.0.0/24")
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

const (
	// ends waits for the end of the server, or of the Debian, in the background.
	ends = "kill $(cat pid); while kill -0 $(cat pid) 2>/dev/null; do sleep 0.1; done\n"
	// boots starts a copy of a small Debian, which ends with the test.
	boots = `systemd-nspawn --quiet --register=no --keep-unit --ephemeral --directory $DEBIAN --machine grapnel-debian \
	--bind-ro=$PWD:/srv --boot </dev/null >>log 2>&1 &
echo $! >pid
until sudo systemctl is-system-running; do sleep 0.2; done
sudo mkdir /etc/systemd/system/grapnel.service.d
printf '[Service]\nEnvironment=GRAPNEL_EGRESS_ALLOW=%s\n' $GRAPNEL_EGRESS_ALLOW |
	sudo tee /etc/systemd/system/grapnel.service.d/receiver.conf`
)

// life is the machine that a way of the page needs, how it restarts and ends what it started, where
// its receiver is for it, and what else has to succeed.
type life struct{ before, restart, end, receiver, then string }

// lives are the ways that are run. The page says of each other way why it is not.
var lives = map[string]life{
	"archive": {"", ends + "./grapnel serve &", ends, "127.0.0.1", ""},
	"deb":     {boots, "sudo systemctl restart grapnel", "sudo journalctl -u grapnel -n 20 || true\n" + ends, "127.0.0.1", "sudo bash unit.sh"},
	"image":   {"", "docker restart grapnel", "docker rm -f grapnel", "10.213.0.1", "docker exec grapnel grapnel version"},
	"compose": {"", "docker compose restart grapnel", "docker compose down", "10.213.0.1",
		"docker compose exec grapnel grapnel backup --store sqlite:/var/lib/grapnel/grapnel.db --to /var/lib/grapnel/copy.db"},
	// With a node less the others go on, and the proxy asks them.
	"compose, three nodes": {"", three + "restart grapnel-1 grapnel-2 grapnel-3", three + "down", "10.213.0.1",
		three + "stop grapnel-1\n" + other + "send invoice.paid -d '{\"amount\":100}'\n" +
			"until [ $(" + other + "deliveries list --status delivered -o name | wc -l) = 3 ]; do sleep 0.2; done"},
	"chart": {"", "kubectl rollout restart statefulset/grapnel", "helm uninstall grapnel", "10.213.0.1", ""},
	"chart, PostgreSQL": {three + "up -d --wait postgres", "kubectl rollout restart deploy/grapnel", "helm uninstall grapnel\n" + three + "down",
		"10.213.0.1", ""},
}

// TestTheImageIsSmall: below 60 MB, not root, with a check of health.
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
	if n, _ := fmt.Sscan(string(out), &size, &unit); err != nil || n != 2 || unit != "MB" || size >= 60 {
		t.Errorf("size: %s %v", out, err)
	}
	t.Logf("the image has %s", strings.TrimSpace(string(out)))
}

// way is a row of the page: the commands that start it, how its commands are called, and when its
// first event was delivered, or why it is not run.
type way struct{ name, start, call, first string }

// readPage returns the ways of docs/deploy.md, what each of them calls, and the commands that make
// the secrets of three nodes.
func readPage(t *testing.T) (ways []way, calls []string, secrets string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/deploy.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "| way | start | call | first event after |\n|---|---|---|---|\n")
	for row := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(row), "|"), " | ")
		if len(cells) != 4 {
			break
		}
		for i := range cells {
			cells[i] = strings.ReplaceAll(strings.ReplaceAll(strings.TrimSpace(cells[i]), "`<br>`", "\n"), "`", "")
		}
		ways = append(ways, way{cells[0], cells[1], cells[2], cells[3]})
	}
	_, rest, _ := strings.Cut(table, "```\nCALL")
	text, _, _ := strings.Cut("CALL"+rest, "```")
	calls = strings.Split(strings.TrimSpace(text), "\n")
	match := regexp.MustCompile(`(?m)^    (printf 'POSTGRES(?:.|\n)*?>\.env)$`).FindStringSubmatch(string(page))
	if len(ways) == 0 || len(calls) != 3 || match == nil {
		t.Fatalf("the page has changed: %q, %q, %q", ways, calls, match)
	}
	return ways, calls, match[1]
}

// TestFirstEvent goes every way of the page, and says at its end how each went.
func TestFirstEvent(t *testing.T) {
	ways, calls, secrets := readPage(t)
	gone, report := 0, "\nartifact | commands | seconds to the first delivered event\n"
	for _, w := range ways {
		life, runs := lives[w.name]
		why, not := strings.CutPrefix(w.first, "not run: ")
		if runs == not {
			t.Errorf("%s: the page says %q", w.name, w.first)
		}
		first := "NOT RUN: " + why
		if runs {
			gone++
			first = "NOT RUN: left out by -run"
			t.Run(w.name, func(t *testing.T) {
				first = "FAILED"
				took := goes(t, w, life, calls, secrets)
				if !t.Failed() {
					first = fmt.Sprintf("%.1f", took.Seconds())
				}
			})
		}
		report += fmt.Sprintf("%s | %s; %d calls | %s\n", w.name, strings.ReplaceAll(w.start, "\n", "; "), len(calls), first)
	}
	if gone != len(lives) {
		t.Errorf("the page has %d of the ways %v", gone, lives)
	}
	fmt.Println(report)
}

// goes starts one way, restarts it and looks again. It returns the time from the first command to the
// first delivered event.
func goes(t *testing.T, w way, life life, calls []string, secrets string) time.Duration {
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
	call := func(i int) string {
		return strings.ReplaceAll(strings.Replace(calls[i], "CALL", w.call, 1), "https://example.com/hooks", url)
	}

	background := strings.NewReplacer("./grapnel serve &", "./grapnel serve >>log 2>&1 & echo $! >pid")
	start := regexp.MustCompile(`(\./)?grapnel_0\.1\.0_linux_amd64`).ReplaceAllString(w.start, "./$$(basename grapnel_*_linux_amd64.deb .deb)")
	t.Cleanup(func() {
		out, _ := m.try(t, life.end)
		if t.Failed() {
			logs, _ := exec.Command("bash", "-c", "tail -n 20 "+m.dir+"/log "+m.dir+"/docker/*.log").CombinedOutput()
			t.Logf("%s\n%s", out, logs)
		}
	})
	m.run(t, secrets+"\n"+life.before)
	m.env = append(m.env, "STORE=postgres://grapnel:"+m.run(t, ". ./.env; printf %s $POSTGRES_PASSWORD")+"@postgres/grapnel?sslmode=disable")
	began := time.Now()
	m.run(t, background.Replace(start))
	m.until(t, w.call+" health", "ok")
	m.run(t, call(0))
	m.run(t, call(1))
	list := call(2) + " -o name"
	m.until(t, list, "dlv_")
	took := time.Since(began)
	if got.Load() != 1 {
		t.Errorf("the receiver got %d requests", got.Load())
	}
	was := m.run(t, list)
	m.run(t, background.Replace(life.restart))
	m.until(t, w.call+" health", "ok")
	m.until(t, list, was)
	m.run(t, call(1))
	m.until(t, list+" | wc -l", "2")
	m.run(t, life.then)
	return took
}
