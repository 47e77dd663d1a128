//go:build linux

package receivers

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/grapnelhq/grapnel/internal/proof/torture"
)

// withoutGates are the cases for receivers of one source that keep no state of an object, and have
// no routes for faults and the clock.
var withoutGates = []string{"T01", "T02", "T04", "T05", "T10", "T11", "T14", "T15", "T16", "T17", "T20", "T21", "T22", "T23", "T26"}

// TestTheShopsChargeOnce: the examples pass every case of torture that they can have.
func TestTheShopsChargeOnce(t *testing.T) {
	t.Parallel()
	installed := installedShop(t)
	for name, row := range map[string]Row{
		"go":      {Language: "shop", Command: []string{"receiver"}, Source: "examples/shop"},
		"express": {Command: []string{Rows[1].Command[0], filepath.Join(installed, "express.mjs")}},
		"next":    {Command: []string{Rows[1].Command[0], filepath.Join(installed, "route.mjs")}},
		"fastapi": {Command: []string{Rows[2].Command[0], "examples/shop/shop.py"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failed, text, err := tortured(t.Context(), withoutGates, func(only ...string) torture.Options {
				o := options(prepared(t, row, "", "sqlite"), small, only...)
				o.FaultURL, o.ClockURL = "", ""
				return o
			})
			if err != nil || len(failed) > 0 {
				t.Errorf("%v: it fails %v\n%s", err, failed, text)
			}
		})
	}
}

// installedShop is a directory with the shops in JavaScript, as npm install leaves it: their
// packages are links to those of the kit.
func installedShop(t *testing.T) string {
	t.Helper()
	dir, kit := t.TempDir(), filepath.Join(root, "sdk/typescript")
	if err := os.Mkdir(filepath.Join(dir, "node_modules"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, is := range map[string]string{"express": kit + "/node_modules/express", "grapnel": kit} {
		if err := os.Symlink(is, filepath.Join(dir, "node_modules", name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(root, "examples/shop"))); err != nil {
		t.Fatal(err)
	}
	return dir
}
