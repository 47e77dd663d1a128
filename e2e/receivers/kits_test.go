//go:build linux

package receivers

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/grapnelhq/grapnel/e2e/process"
	"github.com/grapnelhq/grapnel/internal/base/bounds"
	"github.com/grapnelhq/grapnel/internal/proof/torture"
)

// TestEveryKitPassesTorture: the receiver of each language passes every case in every mode and, in
// the long form, on every store.
func TestEveryKitPassesTorture(t *testing.T) {
	t.Parallel()
	for _, row := range Rows {
		for _, mode := range Modes {
			for _, store := range row.stores(mode) {
				t.Run(row.Language+"/"+mode+"/"+store, func(t *testing.T) {
					t.Parallel()
					failed, text, err := tortured(t.Context(), nil, func(only ...string) torture.Options {
						return options(prepared(t, row, mode, store), small, only...)
					})
					if err != nil {
						t.Fatal(err)
					}
					if len(failed) > 0 {
						t.Errorf("it fails %v\n%s", failed, text)
					}
				})
			}
		}
	}
}

// TestTheCommandJudgesReceivers: grapnel torture judges every case, and exits with 0 for each kit's
// receiver, in the short form for the Go kit's, and with 8 for one with a flaw.
func TestTheCommandJudgesReceivers(t *testing.T) {
	t.Parallel()
	grapnel, err := process.Build(scratch)
	if err != nil {
		t.Fatal(err)
	}
	rows := Rows
	if !long {
		rows = Rows[:1]
	}
	for _, row := range append(slices.Clone(rows), bad) {
		t.Run(row.Language, func(t *testing.T) {
			t.Parallel()
			r, want, limits := prepared(t, row, "transaction", "postgres", "FLAW=marked-first"), 0, small
			if row.Language == bad.Language {
				want, limits = 8, impatient
			}
			args := []string{"torture", r.Base + "/hooks", "--secret", Secret, "--other-url", r.Base + "/other", "--other-secret", Secret2,
				"--probe", r.Base + "/_probe", "--fault-url", r.Base + "/_fault", "--clock-url", r.Base + "/_clock", "--yes", "-o", "json",
				"--bound", strings.Join(bounds.List(bounds.Fill(limits)), ","), "--"}
			cmd := exec.CommandContext(t.Context(), grapnel, append(args, r.Command()...)...)
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			out, _ := cmd.Output() // its exit code is looked at
			var report torture.Report
			if err := json.Unmarshal(out, &report); err != nil {
				t.Fatalf("%v: %s%s", err, out, stderr.Bytes())
			}
			if code := cmd.ProcessState.ExitCode(); code != want || report.Skipped != 0 || len(report.Results) != len(torture.Cases) {
				t.Errorf("it exits with %d instead of %d; %d cases, %d not judged\n%s", code, want, len(report.Results), report.Skipped, out)
			}
		})
	}
}
