package receive_test

import (
	"database/sql"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/receive"
)

// TestTheReadmeRuns: the program at the top of README.md compiles as printed, and pays an invoice
// once.
func TestTheReadmeRuns(t *testing.T) {
	page, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, program, _ := strings.Cut(string(page), "```go\n")
	program, _, _ = strings.Cut(program, "```")
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/main.go", []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", "build", "-o", dir+"/program", dir+"/main.go").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	db, err := sql.Open("sqlite", filepath.Join(dir, "shop.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if _, err := db.Exec("create table invoices(id text, paid integer default 0, updates integer default 0);" +
		"create trigger counted after update of paid on invoices begin update invoices set updates = updates + 1 where id = new.id; end;" +
		"insert into invoices(id) values('inv_1')"); err != nil {
		t.Fatal(err)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := free.Addr().String()
	_ = free.Close()
	c := exec.Command(dir + "/program")
	c.Env = append(os.Environ(), "DB="+dir+"/shop.db", "SECRET="+secret, "ADDR="+addr)
	c.Stderr = os.Stderr
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Process.Kill(); _ = c.Wait() }()
	for _, outcome := range []receive.Outcome{receive.Processed, receive.Duplicate} {
		var answer *http.Response
		for end := time.Now().Add(30 * time.Second); answer == nil; {
			r := request(t, "evt_1", "inv_1")
			r.URL, _ = r.URL.Parse("http://" + addr + "/hooks")
			r.RequestURI = ""
			if answer, err = http.DefaultClient.Do(r); err != nil && time.Now().After(end) {
				t.Fatal(err)
			}
		}
		_ = answer.Body.Close()
		if got := answer.Header.Get("Webhook-Outcome"); got != string(outcome) {
			t.Errorf("the answer is %d %s; want %s", answer.StatusCode, got, outcome)
		}
	}
	var paid, updates int
	if err := db.QueryRow("select paid, updates from invoices").Scan(&paid, &updates); err != nil || paid != 1 || updates != 1 {
		t.Errorf("the invoice is paid %d in %d updates, %v", paid, updates, err)
	}
}
