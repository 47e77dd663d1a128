package schema

import (
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// frozen are the checksums of all steps that were ever released. Databases have taken them, and a
// program refuses a database that has taken a step with another checksum. Until 0.1.0 is released,
// step 1 may change: databases of unreleased builds are refused then.
var frozen = map[string]string{
	"sqlite/0001_schema.sql":   "922d5e1ee1ec2918b4b142a9da22478d2f93fb7821ef84bc07f1957cca93bffd",
	"postgres/0001_schema.sql": "23c3d342003141f1c4e1a348467adfad5dec396ec4b408d39e6175521f185e94",
}

// TestStepsAreFrozen fails when a step is changed, removed or renamed, and when a new one has no
// checksum yet.
func TestStepsAreFrozen(t *testing.T) {
	for name, message := range unlike(t, "..", frozen) {
		t.Errorf("%s: %s", name, message)
	}
}

// unlike returns the faults of the steps of the stores in a directory.
func unlike(t *testing.T, dir string, frozen map[string]string) map[string]string {
	t.Helper()
	wrong := map[string]string{}
	for name := range frozen {
		wrong[name] = "the step is gone; databases have taken it, so put it back"
	}
	files, err := filepath.Glob(filepath.Join(dir, "*", "migrations", "*.sql"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := path.Join(filepath.Base(filepath.Dir(filepath.Dir(file))), filepath.Base(file))
		switch sum := sum(string(text)); frozen[name] {
		case sum:
			delete(wrong, name)
		case "":
			wrong[name] = "the step is new; if it is complete, add its checksum " + sum
		default:
			wrong[name] = "the step has changed; databases have taken it as it was, so undo that and add a new step instead" +
				" (before 0.1.0: change its checksum to " + sum + ")"
		}
	}
	return wrong
}

// TestFrozenStepsAreCompared changes, removes and adds a step.
func TestFrozenStepsAreCompared(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "some", "migrations")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	sums := map[string]string{"some/0003_gone.sql": "x"}
	for name, text := range map[string]string{"0001_same.sql": "a", "0002_changed.sql": "b", "0004_new.sql": "c"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		sums["some/"+name] = sum(text)
	}
	sums["some/0002_changed.sql"] = "y"
	delete(sums, "some/0004_new.sql")
	wrong := unlike(t, filepath.Dir(filepath.Dir(dir)), sums)
	for name, want := range map[string]string{"some/0002_changed.sql": "add a new step instead", "some/0003_gone.sql": "put it back",
		"some/0004_new.sql": "add its checksum"} {
		if !strings.Contains(wrong[name], want) {
			t.Errorf("%s: %q", name, wrong[name])
		}
	}
	if len(wrong) != 3 {
		t.Errorf("wrong are %v", wrong)
	}
}
