package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestBackupSaysWhatIsMissing: of a running server the backup is complete. Of a copy without the
// journal it is not, which the exit code says too.
func TestBackupSaysWhatIsMissing(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	store := func(dir string) string { return "sqlite:" + filepath.Join(dir, "grapnel.db") }
	p := launch(t, map[string]string{"GRAPNEL_ADMIN_KEY": adminKey}, "serve", "--listen", "127.0.0.1:0", "--store", store(from))
	env := map[string]string{"GRAPNEL_SERVER": p.url, "GRAPNEL_KEY": adminKey}
	if got := invoke(t, env, "", "send", "a.b", "-d", "1"); got.code != 0 {
		t.Fatalf("%+v", got)
	}
	for _, suffix := range []string{"", "-wal"} {
		b, err := os.ReadFile(filepath.Join(from, "grapnel.db"+suffix))
		if err == nil {
			err = os.WriteFile(filepath.Join(to, "grapnel.db"+suffix), b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		from, says string
		code       int
	}{{from, `"complete": true`, 0}, {to, `"complete": false`, 9}} {
		got := invoke(t, nil, "", "backup", "-o", "json", "--store", store(tc.from), "--to", filepath.Join(tc.from, "copy.db"))
		if got.code != tc.code || !strings.Contains(got.out, tc.says) {
			t.Errorf("want exit %d, %s: %+v", tc.code, tc.says, got)
		}
	}
	if got := p.stop(); got.code != 0 {
		t.Errorf("%+v", got)
	}
	if got := invoke(t, nil, "", "serve", "--listen", "127.0.0.1:0", "--store", store(to)); got.code == 0 || !strings.Contains(got.errs, "Put the journal back") {
		t.Errorf("serve: %+v", got)
	}
}
