package web

import (
	"fmt"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grapnelhq/grapnel/internal/send/egress/pipenet"
)

// TestFormsThatDoNotEnd: a caller without a session that does not finish a form holds a connection,
// and with it a stop, for a limited time.
func TestFormsThatDoNotEnd(t *testing.T) {
	for _, path := range []string{"/login", "/logout", "/look", "/alerts/acknowledge", "/portal/contacts/confirm"} {
		synctest.Test(t, func(t *testing.T) {
			network := pipenet.New()
			defer network.Close()
			s := newSite(t, nil)
			network.Handle("grapnel", http.HandlerFunc(s.handler.ServeHTTP))
			conn, err := network.Dial(t.Context(), "tcp", "grapnel:80")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			const form = "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 100\r\n\r\nkey=grp_"
			if _, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: grapnel\r\n%s", path, form); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			_ = conn.SetReadDeadline(began.Add(time.Hour))
			answer, err := io.ReadAll(conn)
			if took := time.Since(began); err != nil || took > s.web.Bounds.FormTime {
				t.Errorf("%s: %v; the connection ended after %s: %.80q", path, err, took, answer)
			}
		})
	}
}
