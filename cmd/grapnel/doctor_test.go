package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/grapnelhq/grapnel/internal/tell/doctor"
)

// TestDoctor: a server as it comes has no findings, with and without it running; planted faults
// have theirs, and the exit code says so. Loose limits keep this machine's own load out of it.
func TestDoctor(t *testing.T) {
	dir := t.TempDir()
	store := "sqlite:" + filepath.Join(dir, "data", "grapnel.db")
	examine := func(env []string, more ...string) (codes []string, exit int) {
		t.Helper()
		args := append([]string{"doctor", "--store", store, "--sync", "1h", "--free", "1", "-o", "json"}, more...)
		got := configured(t, env, args...)
		var r doctor.Report
		if err := json.Unmarshal([]byte(got.out), &r); err != nil {
			t.Fatalf("%+v", got)
		}
		for _, f := range r.Findings {
			// these are about the machine that tests run on
			if !slices.Contains([]string{"file_system", "open_files", "memory"}, f.Check) {
				codes = append(codes, f.Check)
			}
		}
		return codes, got.code
	}
	if codes, _ := examine(nil, "--listen", "127.0.0.1:0"); codes != nil {
		t.Errorf("before the first start: %v", codes)
	}
	p := launch(t, map[string]string{"GRAPNEL_ADMIN_KEY": adminKey}, "serve", "--listen", "127.0.0.1:0", "--store", store)
	address := strings.TrimPrefix(p.url, "http://")
	key := []string{"GRAPNEL_KEY=" + adminKey}
	if codes, _ := examine(key, "--listen", address); codes != nil {
		t.Errorf("while it runs: %v", codes)
	}
	config := filepath.Join(dir, "g.yaml")
	if err := os.WriteFile(config, []byte("lisen: a\nretention: soon\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, "data"), 0o755); err != nil { //nolint:gosec // it is the fault
		t.Fatal(err)
	}
	want := []string{"variables", "settings", "settings", "egress_rules", "data_directory"}
	faulty := append(key, "GRAPNEL_RETENTOIN=1h", "GRAPNEL_CONFIG="+config)
	if codes, exit := examine(faulty, "--listen", address, "--egress-allow", "0.0.0.0/0"); !slices.Equal(codes, want) || exit != 8 {
		t.Errorf("found %v, exit %d", codes, exit)
	}
	sound := filepath.Join(dir, "sound.yaml")
	if err := os.WriteFile(sound, []byte("listen: "+address+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if codes, exit := examine(key, "--config", sound); !slices.Equal(codes, []string{"data_directory"}) || exit != 8 {
		t.Errorf("with a config file: %v, exit %d", codes, exit)
	}
	if codes, _ := examine(nil, "--listen", "127.0.0.1:0"); !slices.Equal(codes, []string{"data_directory", "one_server"}) {
		t.Errorf("with another address: %v", codes)
	}
	got := configured(t, faulty, "doctor", "--store", store, "--listen", address)
	for _, text := range []string{"has mode 0755 [data_directory]", "Other users of this machine", "To do: chmod 700 "} {
		if !strings.Contains(got.out, text) {
			t.Errorf("not said: %s\n%s", text, got.out)
		}
	}
	if got := p.stop(); got.code != 0 {
		t.Errorf("%+v", got)
	}
	if got := configured(t, nil, "doctor", "--days", "0"); got.code != 2 {
		t.Errorf("%+v", got)
	}
}
