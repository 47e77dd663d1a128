package torture

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// TestMain is the receiver as a command, if the environment asks for it.
func TestMain(m *testing.M) {
	if address := os.Getenv("RECEIVER_ADDRESS"); address != "" {
		r := receiverOf(os.Getenv("RECEIVER_MISTAKE"), os.Getenv("RECEIVER_SECRET"))
		r.file = os.Getenv("RECEIVER_FILE")
		if text, err := os.ReadFile(r.file); err == nil {
			if err := json.Unmarshal(text, r.saved()); err != nil {
				panic(err)
			}
		}
		panic(http.ListenAndServe(address, r.routes())) //nolint:gosec // a test's
	}
	os.Exit(m.Run())
}

// saved are the parts that survive a crash.
func (r *receiver) saved() *struct {
	Seen   *map[string]bool
	Effect *map[string]int
} {
	return &struct {
		Seen   *map[string]bool
		Effect *map[string]int
	}{&r.seen, &r.effect}
}

// save writes them at once, as a commit does.
func (r *receiver) save() {
	if r.file == "" {
		return
	}
	text, err := json.Marshal(r.saved())
	if err == nil {
		err = os.WriteFile(r.file+".new", text, 0o600)
	}
	if err == nil {
		err = os.Rename(r.file+".new", r.file)
	}
	if err != nil {
		panic(err)
	}
}

// asCommand are the options of a receiver that torture starts itself.
func asCommand(t *testing.T, mistake string) Options {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	secret := newSecret()
	t.Setenv("RECEIVER_ADDRESS", address)
	t.Setenv("RECEIVER_MISTAKE", mistake)
	t.Setenv("RECEIVER_SECRET", secret)
	t.Setenv("RECEIVER_FILE", filepath.Join(t.TempDir(), "state"))
	own := "http://" + address
	return Options{URL: own + "/hooks", Scheme: Standard(), Secret: secret, Probe: HTTPProbe{URL: own + "/_probe"},
		FaultURL: own + "/_fault", ClockURL: own + "/_clock", Command: []string{os.Args[0]}, Only: []string{"T04", "T05"},
		Bounds: Bounds{Settle: 500 * time.Millisecond, Kills: 2}}
}

// TestCrashes: a receiver that commits before it answers survives kills; one that records before
// its work, and one that answers before it, do not. The command has ended after the run.
func TestCrashes(t *testing.T) {
	for mistake, want := range map[string][]string{"": nil, "record before work": {"T04"}, "answer before work": {"T04", "T05"}} {
		t.Run(mistake, func(t *testing.T) {
			o := asCommand(t, mistake)
			report, failed := verdicts(t, o)
			if !slices.Equal(failed, want) || report.Skipped > 0 {
				for _, r := range report.Results {
					t.Log(r.Line(plainly))
				}
				t.Errorf("failed: %v, want %v", failed, want)
			}
			if conn, err := dial(context.Background(), o.URL); err == nil {
				_ = conn.Close()
				t.Error("the receiver still listens after the run")
			}
		})
	}
}
