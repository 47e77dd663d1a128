package api

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/face/api/openapi"
	"github.com/grapnelhq/grapnel/internal/store"
)

// An export has what the list has, all of it and once, in the same words.
func TestExportIsTheWholeList(t *testing.T) {
	w := newWorld(t)
	w.endpoint(admin, "")
	n := ample.ExportPage + 7
	w.must(202, "POST", "/v1/events/batch", `{"events":[`+many(n, func(i string) string {
		return `{"type":"a.` + i[len(i)-1:] + `","data":1,"key":"k,\"` + i + `"}`
	})+`]}`)
	w.finish(w.newest(t), grapnel.Failed, grapnel.ReasonExhausted, "=1+1\nand more")
	for _, query := range []string{"", "type=a.1&", "status=failed&", "key=nobodys&"} {
		listed := w.all("/v1/deliveries?"+query, 500)
		r := w.ask(admin, "GET", "/v1/deliveries/export?"+strings.TrimSuffix(query, "&"), "")
		if r.StatusCode != 200 || r.Header.Get("Content-Type") != openapi.TypeNDJSON ||
			r.Header.Get("Content-Disposition") != `attachment; filename="deliveries.jsonl"` {
			t.Fatalf("answered %d %v", r.StatusCode, r.Header)
		}
		var ids []string
		for _, line := range bytes.Split(bytes.TrimSuffix(r.body, []byte("\n")), []byte("\n")) {
			if len(line) == 0 {
				continue
			}
			var d map[string]any
			if err := json.Unmarshal(line, &d); err != nil {
				t.Fatal(err)
			}
			for _, wrong := range published31().check(published31().at(published31().doc, "components", "schemas", "Delivery"), d, "a line") {
				t.Error(wrong)
			}
			ids = append(ids, d["id"].(string))
		}
		if d := cmp.Diff(listed, ids); d != "" {
			t.Errorf("%s as lines: %s", query, d)
		}
		r = w.ask(admin, "GET", "/v1/deliveries/export?"+query+"format=csv", "")
		if r.Header.Get("Content-Type") != "text/csv; charset=utf-8" {
			t.Errorf("the type is %s", r.Header.Get("Content-Type"))
		}
		rows, err := csv.NewReader(bytes.NewReader(r.body)).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		ids = nil
		for i, row := range rows[1:] {
			ids = append(ids, row[0])
			if query == "status=failed&" && (row[7] != "failed" || row[8] != "exhausted" || row[9] != "'=1+1\nand more" ||
				row[5] != fmt.Sprintf(`k,"%d`, n-1)) {
				t.Errorf("row %d is %q", i, row)
			}
		}
		if d := cmp.Diff(listed, ids); d != "" || rows[0][0] != "id" {
			t.Errorf("%s as a table: %s %v", query, d, rows[0])
		}
	}
	if r := w.ask(admin, "HEAD", "/v1/deliveries/export?format=csv", ""); r.StatusCode != 200 || len(r.body) != 0 {
		t.Errorf("asked what there is: %d and %d bytes", r.StatusCode, len(r.body))
	}
	if r := w.ask(acmeAdmin, "GET", "/v1/deliveries/export", ""); len(r.body) != 0 {
		t.Errorf("another tenant gets %s", r.body)
	}
	if r := w.ask(admin, "GET", "/v1/dead-letters/export?format=csv&type=nobodys", ""); r.StatusCode != 200 ||
		bytes.Count(r.body, []byte("\n")) != 1 {
		t.Errorf("an empty table is %q", r.body)
	}
}

// fading is a history that breaks down after so many pages.
type fading struct {
	History
	after int
}

var errBroken = errors.New("the disk is gone")

func (b *fading) DeliverySearch(ctx context.Context, scope store.Scope, q store.DeliveryQuery,
	text string) ([]grapnel.Delivery, int64, error) {
	if b.after--; b.after < 0 {
		return nil, 0, errBroken
	}
	return b.History.DeliverySearch(ctx, scope, q, text)
}

// Half of an export never looks like all of it.
func TestExportThatBreaksOff(t *testing.T) {
	b := &fading{after: 1 << 20}
	w := newWorld(t, func(o *Options) { b.History, o.History = o.History, b })
	w.endpoint(admin, "")
	w.must(202, "POST", "/v1/events/batch",
		`{"events":[`+many(ample.ExportPage+1, func(string) string { return `{"type":"a","data":1}` })+`]}`)
	b.after = 0
	if r := w.ask(admin, "GET", "/v1/deliveries/export", ""); r.StatusCode != 500 {
		t.Errorf("when nothing can be read: answered %d", r.StatusCode)
	}
	b.after = 1
	server := httptest.NewServer(w.handler)
	defer server.Close()
	r, err := http.NewRequestWithContext(t.Context(), "GET", server.URL+"/v1/deliveries/export", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+admin)
	// A half that is shorter than the server's buffer is never sent: then not even the header comes.
	if resp, err := server.Client().Do(r); err == nil {
		defer func() { _ = resp.Body.Close() }()
		var got bytes.Buffer
		if _, err := got.ReadFrom(resp.Body); err == nil {
			t.Errorf("the half of it ended like the whole, after %d lines", bytes.Count(got.Bytes(), []byte("\n")))
		}
	}
	server.Close() // waits for the handler, which writes the log
	if !strings.Contains(w.logged.String(), errBroken.Error()) {
		t.Errorf("logged was %s", w.logged)
	}
}

// narrow are connections whose sender soon waits for its reader.
type narrow struct{ net.Listener }

func (l narrow) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		err = c.(*net.TCPConn).SetWriteBuffer(4 << 10)
	}
	return c, err
}

// A caller that hangs up in the middle of an export is no fault of the server.
func TestExportWhoseCallerLeavesIsNotLogged(t *testing.T) {
	w := newWorld(t)
	w.endpoint(admin, "")
	for range 4 {
		w.must(202, "POST", "/v1/events/batch", `{"events":[`+many(500, func(string) string { return `{"type":"a","data":1}` })+`]}`)
	}
	server := httptest.NewUnstartedServer(w.handler)
	server.Listener = narrow{server.Listener}
	server.Start()
	defer server.Close()
	c, err := net.Dial("tcp", server.Listener.Addr().String())
	if err == nil {
		err = c.(*net.TCPConn).SetReadBuffer(4 << 10)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(c, "GET /v1/deliveries/export HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer %s\r\n\r\n", admin); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	server.Close() // waits for the handler, which writes the log
	if strings.Contains(w.logged.String(), "export") {
		t.Errorf("logged was %s", w.logged)
	}
}
