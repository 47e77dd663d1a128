//go:build linux

package main

import (
	"os"
	"strings"
	"testing"
)

// TestScaleHasTheCalculation: docs/scale.md has the command's table.
func TestScaleHasTheCalculation(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/scale.md")
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if status := capacityMain(t.Context(), nil, &out); status != 0 {
		t.Fatalf("the command ends with status %d", status)
	}
	if !strings.Contains(string(page), out.String()) {
		t.Errorf("docs/scale.md does not have what go run ./bench capacity prints:\n%s", &out)
	}
}
