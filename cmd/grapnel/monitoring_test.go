package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMonitoringCreatesItsDirectory: the example of the help works on a machine that has no such
// directory; a fault names the flag.
func TestMonitoringCreatesItsDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "prometheus", "grapnel")
	if got := invoke(t, nil, "", "monitoring", "export", "--dir", dir); got.code != 0 {
		t.Fatalf("%+v", got)
	}
	for _, name := range []string{"grapnel.rules.yaml", "grapnel.dashboard.json"} {
		if text, err := os.ReadFile(filepath.Join(dir, name)); err != nil || len(text) == 0 {
			t.Errorf("%s has %d bytes: %v", name, len(text), err)
		}
	}
	file := filepath.Join(dir, "grapnel.rules.yaml")
	if got := invoke(t, nil, "", "monitoring", "export", "--dir", file); got.code != 1 || !strings.Contains(got.errs, "--dir") {
		t.Errorf("a file as directory: %+v", got)
	}
}
