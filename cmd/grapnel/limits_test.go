package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/grapnelhq/grapnel/internal/base/bounds"
	"github.com/grapnelhq/grapnel/internal/face/cli"
	"github.com/grapnelhq/grapnel/internal/server"
)

// TestLimitsAreDefaults: each limit in the page is a flag or a bound with its default, and each
// metric is one that the page for operators explains.
func TestLimitsAreDefaults(t *testing.T) {
	text, err := os.ReadFile("../../docs/limits.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	flags := (&session{World: &cli.World{Program: "grapnel"}}).serveCommand().Flags()
	limits := regexp.MustCompile("`(--)?([a-z.-]+)=([0-9A-Za-z]+)`").FindAllStringSubmatch(page, -1)
	if len(limits) < 50 {
		t.Fatalf("only %d limits were found", len(limits))
	}
	for _, l := range limits {
		if l[1] != "" {
			if f := flags.Lookup(l[2]); f == nil || f.DefValue != l[3] {
				t.Errorf("there is no flag %s with this default: %v", l[0], f)
			}
			continue
		}
		is := bounds.Fill(server.Bounds{})
		if err := bounds.Parse(l[2]+"="+l[3], &is); err != nil || is != bounds.Fill(server.Bounds{}) {
			t.Errorf("%s is not the default: %v", l[0], err)
		}
	}
	operating, err := os.ReadFile("../../docs/operating.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, metric := range regexp.MustCompile("`(grapnel_[a-z_]+)").FindAllStringSubmatch(page, -1) {
		if !strings.Contains(string(operating), metric[1]) {
			t.Errorf("docs/operating.md does not have %s", metric[1])
		}
	}
}
