//go:build prove

package monitoring

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files")

// The files change only on purpose: people have them in their repositories.
func TestGolden(t *testing.T) {
	for name, write := range map[string]func() ([]byte, error){"rules.golden.yaml": Rules, "dashboard.golden.json": Dashboard} {
		got, err := write()
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(path, got, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if want, err := os.ReadFile(path); err != nil || string(want) != string(got) {
			t.Errorf("%s differs from the written file (%v); look at the difference after: go test ./internal/tell/monitoring -update", name, err)
		}
	}
}

// The alerts about the promises fire and end when the arithmetic of their windows says so:
// Prometheus's own tool plays outages. make needs installs it.
func TestAlertsFireAndEndInTime(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Fatal("promtool is missing; make needs installs it: ", err)
	}
	dir := t.TempDir()
	slower := kept()
	for i := range slower {
		slower[i].Interval = "1m" // as the samples of the outage: it takes less than half the time
	}
	for name, groups := range map[string][]group{"promises.yaml": slower, "signs-rules.yaml": {seen()}} {
		rules, err := encode(groups...)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), rules, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(promtool, "check", "rules", filepath.Join(dir, name)).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	for _, name := range []string{"outage.yaml", "freshness.yaml", "signs.yaml", "letters.yaml"} {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(promtool, "test", "rules", filepath.Join(dir, name)).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}
