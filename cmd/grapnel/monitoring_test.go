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

// TestUnknownFormsOfOutput: commands without data of their own refuse them like all others.
func TestUnknownFormsOfOutput(t *testing.T) {
	for _, command := range []string{"monitoring export", "man", "completion bash", "simulate --outage 1h"} {
		for _, flag := range []string{"--output=xml", "--jq=.["} {
			dir := t.TempDir()
			t.Chdir(dir)
			got := invoke(t, nil, "", append(strings.Fields(command), flag)...)
			if written, err := os.ReadDir(dir); got.code != 2 || got.out != "" || err != nil || len(written) > 0 {
				t.Errorf("%s %s: exits %d with %d bytes, wrote %v, %v", command, flag, got.code, len(got.out), written, err)
			}
		}
	}
}
