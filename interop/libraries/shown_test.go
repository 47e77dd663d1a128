package main

import (
	"path/filepath"
	"testing"

	"github.com/grapnelhq/grapnel/policy"
)

// TestTheShownRequestIsWhatLibrariesVerify: the official libraries accept the body that the server
// shows of a request, with the headers that were sent, in all formats, with transforms and presets.
func TestTheShownRequestIsWhatLibrariesVerify(t *testing.T) {
	l := &lab{dir: t.TempDir()}
	var err error
	if l.root, err = filepath.Abs("../.."); err != nil {
		t.Fatal(err)
	}
	if err := l.build(t.Context()); err != nil {
		t.Fatal(err)
	}
	s, err := l.serve(t.Context(), "sqlite:"+filepath.Join(l.dir, "data", "grapnel.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.stop(); err != nil {
			t.Error(err, s.words())
		}
	}()
	more := []map[string]any{{"transform": "{wrapped: ., n: 1.50}"}, {"transform": ".id", "format": "standard"}}
	for _, p := range policy.Presets() {
		more = append(more, map[string]any{"policy": p.Name})
	}
	captures, err := l.captured(t.Context(), s, more)
	if err != nil {
		t.Fatal(err, s.words())
	}
	tallies := verifyInGo(captures)
	if least := len(more) * len(bodies); tallies[goStandard+" webhook-*"].Right < least || tallies[goSvix+" svix-*"].Right == 0 {
		t.Errorf("too few were verified: %+v", tallies)
	}
	for name, tally := range tallies {
		if name != goStandard+" svix-*" && (tally.Wrong > 0 || tally.Accepted > 0) {
			t.Errorf("%s: %+v", name, tally)
		}
	}
}
