//go:build linux

package browser

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/chromedp"

	"github.com/grapnelhq/grapnel/e2e/process"
)

// chrome is the context of the browser that all tests share; each test has a browser context of its
// own in it, with its own cookies and storage.
var chrome context.Context

// scratch has the binary, the profile of the browser and the logs of the servers for as long as the
// test run lasts.
var scratch string

// binary builds the program once per test run.
var binary = sync.OnceValues(func() (string, error) { return process.Build(scratch) })

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	if scratch, err = os.MkdirTemp("", "grapnel-browser-"); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	end, err := startChrome(scratch)
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, end()) }()
	return m.Run(), nil
}

// switches are those that chromium runs with. It asks for no updates, and pages look the same on
// every machine. A frame of another site has a process of its own, as on a desktop.
var switches = []chromedp.ExecAllocatorOption{
	chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck, chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU,
	chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true),
	chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true), chromedp.Flag("disable-breakpad", true),
	chromedp.Flag("site-per-process", true), chromedp.Flag("disable-extensions", true), chromedp.Flag("disable-dev-shm-usage", true),
	chromedp.Flag("disable-background-timer-throttling", true), chromedp.Flag("disable-backgrounding-occluded-windows", true),
	chromedp.Flag("disable-renderer-backgrounding", true), chromedp.Flag("force-color-profile", "srgb"),
	chromedp.Flag("hide-scrollbars", true), chromedp.Flag("lang", "en-GB"), chromedp.Flag("no-proxy-server", true),
}

// startChrome starts chromium in a process group of its own. The function that it returns ends the
// whole group.
func startChrome(scratch string) (end func() error, err error) {
	path, err := process.Chromium()
	if err != nil {
		return nil, err
	}
	var cmd *exec.Cmd
	options := append([]chromedp.ExecAllocatorOption{}, switches...)
	options = append(options, chromedp.ExecPath(path), chromedp.UserDataDir(scratch+"/profile"), chromedp.Env("HOME="+scratch, "TZ=UTC"),
		chromedp.ModifyCmdFunc(func(c *exec.Cmd) {
			cmd = c
			c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
			keepNice(c)
		}))
	allocator, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	quiet := chromedp.WithErrorf(func(string, ...any) {}) // events that are newer than this client
	chrome, _ = chromedp.NewContext(allocator, quiet)
	if err := chromedp.Do(chrome); err != nil {
		cancel()
		return nil, fmt.Errorf("cannot start %s: %w", path, err)
	}
	return func() error {
		ctx, done := context.WithTimeout(chrome, 10*time.Second)
		defer done()
		err := chromedp.Cancel(ctx)
		cancel()
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // it fails if all have ended
		chromedp.FromContext(chrome).Allocator.Wait()
		return err
	}, nil
}

// keepNice has chromium run with the priority of the test: as root it would raise its own, above that
// of all tests beside it.
func keepNice(c *exec.Cmd) {
	if setpriv, err := exec.LookPath("setpriv"); err == nil && os.Geteuid() == 0 {
		c.Path, c.Args = setpriv, append([]string{setpriv, "--bounding-set=-sys_nice", "--"}, c.Args...)
	}
}

// call makes one call of the browser's protocol that answers with nothing of interest.
func call[P, R any](cmd cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, cmd, params)
		return err
	})
}
