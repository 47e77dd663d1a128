package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grapnelhq/grapnel/internal/base/chain"
)

// TestAuditIsExportedAndVerified: two months of one chain, from a real server, and the answer of
// verify for an edited file.
func TestAuditIsExportedAndVerified(t *testing.T) {
	_, env := serve(t)
	dir := t.TempDir()
	january, february := filepath.Join(dir, "january.jsonl"), filepath.Join(dir, "february.jsonl")
	call := func(code int, args ...string) result {
		t.Helper()
		got := invoke(t, env, "", args...)
		if got.code != code {
			t.Fatalf("%v: %+v", args, got)
		}
		return got
	}
	headOf := func(said string) string {
		t.Helper()
		_, head, _ := strings.Cut(said, "The head of the chain is ")
		head, _, found := strings.Cut(head, ".")
		if !found {
			t.Fatalf("no head in %q", said)
		}
		return head
	}
	for _, name := range []string{"one", "two"} {
		call(0, "endpoints", "create", "https://"+name+".example", "--description", name)
	}
	headOf(call(0, "audit", "export", "--file", january).errs)
	for _, name := range []string{"three", "four"} {
		call(0, "endpoints", "create", "https://"+name+".example")
	}
	head := headOf(call(0, "audit", "export", "--file", february, "--after-file", january).errs)
	if all := call(0, "audit", "export").out; all != contents(t, january)+contents(t, february) {
		t.Errorf("in one part:\n%s\nin two:\n%s%s", all, contents(t, january), contents(t, february))
	}
	call(0, "audit", "verify", january, february, "--head", head)
	var is chain.Report
	err := json.Unmarshal([]byte(call(0, "audit", "verify", january, february, "-o", "json").out), &is)
	if err != nil || is.Head != head || !is.Verified {
		t.Errorf("verified: %+v, %v", is, err)
	}
	if got := call(0, "audit", "verify", january); !strings.Contains(got.errs, "Without --head") {
		t.Errorf("without --head: %q", got.errs)
	}
	if got := call(8, "audit", "verify", february); !strings.Contains(got.errs, "february.jsonl line 1: lines before this one are missing") {
		t.Errorf("without its first part: %q", got.errs)
	}
	if got := call(8, "audit", "verify", january, "--head", head); !strings.Contains(got.errs, "missing at the end") {
		t.Errorf("without its second part: %q", got.errs)
	}
	edited := bytes.Replace([]byte(contents(t, february)), []byte("key_admin"), []byte("key_other"), 1)
	if err := os.WriteFile(february, edited, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := call(8, "audit", "verify", january, february, "--head", head); !strings.Contains(got.out, "february.jsonl  1     changed") {
		t.Errorf("after an edit: %q", got.out)
	}
	call(8, "audit", "export", "--after-file", february)
	call(2, "audit", "verify", january, "--head", "abc")
	call(2, "audit", "verify", filepath.Join(dir, "none.jsonl"))
	call(1, "audit", "export", "--file", january)
}

func contents(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
