package main

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/face/cli"
)

// TestFollowerKnowsWhatItTold: ids do not say which delivery is newer. Deliveries of the
// last answer are known, and so are older ones: when the newest are purged, older ones move up.
func TestFollowerKnowsWhatItTold(t *testing.T) {
	at := func(second int) time.Time { return time.Unix(int64(1_767_603_600+second), 0) }
	delivery := func(id string, second int) client.Delivery { return client.Delivery{ID: id, CreatedAt: at(second)} }
	knows := func(f *follower, want bool, all ...client.Delivery) {
		t.Helper()
		for i := range all {
			if f.known(&all[i]) != want {
				t.Errorf("%s: known is %t", all[i].ID, !want)
			}
		}
	}
	var f follower
	x, a, b, c, d := delivery("dlv_x", 0), delivery("dlv_9", 1), delivery("dlv_1", 2), delivery("dlv_5", 2), delivery("dlv_0", 3)
	knows(&f, false, x, a, b)
	f.remember([]client.Delivery{b, a})
	knows(&f, true, b, a, x)
	knows(&f, false, c, d)
	f.remember([]client.Delivery{d, c, b})
	knows(&f, true, d, c, b, a, x)
	f.remember(nil) // the answer was empty
	knows(&f, true, d, c, b, a, x)
}

// The server looks through a bounded number of deliveries for a page, so the page is empty where
// the type is rare. The follower begins with the newest deliveries of the type, not with none, and
// does not take them for new ones at the next poll.
func TestFollowerBeginsBehindPagesThatAreShort(t *testing.T) {
	f := newFake(t, func(r *http.Request) (int, string) {
		switch r.URL.Query().Get("cursor") {
		case "":
			return http.StatusOK, `{"data":[],"next":"1"}`
		case "1":
			return http.StatusOK, `{"data":[{"id":"dlv_3","status":"delivered","created_at":"2026-01-03T00:00:00Z"}],"next":"2"}`
		default:
			return http.StatusOK, `{"data":[{"id":"dlv_2","status":"delivered","created_at":"2026-01-02T00:00:00Z"},` +
				`{"id":"dlv_1","status":"delivered","created_at":"2026-01-01T00:00:00Z"}],"next":null}`
		}
	})
	if got := followed(t, f.URL); len(got) != 2 || got[0] != "dlv_2" || got[1] != "dlv_3" {
		t.Errorf("printed %v", got)
	}
}

// A delivery has a time from before the commit that orders it, by the clock of the node that took
// its event. So a newer one may have an earlier time than all others, and is printed.
func TestFollowerPrintsADeliveryOfAnEarlierTime(t *testing.T) {
	polls := 0
	f := newFake(t, func(*http.Request) (int, string) {
		polls++
		late := `{"id":"dlv_1","status":"delivered","created_at":"2026-01-01T00:00:01Z"}],"next":null}`
		if polls == 1 {
			return http.StatusOK, `{"data":[` + late
		}
		return http.StatusOK, `{"data":[{"id":"dlv_2","status":"delivered","created_at":"2026-01-01T00:00:00Z"},` + late
	})
	if got := followed(t, f.URL); len(got) != 2 || got[0] != "dlv_1" || got[1] != "dlv_2" {
		t.Errorf("printed %v", got)
	}
}

// followed is what tail prints in three looks, the first of which is before it began.
func followed(t *testing.T, server string) []string {
	t.Helper()
	var out bytes.Buffer
	w := &cli.World{Stdout: &out, Stderr: &bytes.Buffer{}, Now: time.Now, Lookup: func(string) (string, bool) { return "", false }}
	s := &session{World: w, server: server, key: "k", output: cli.Names, timeout: time.Minute}
	r, err := s.reader()
	if err != nil {
		t.Fatal(err)
	}
	tail := &follower{reader: r, progress: w.Progress()}
	for _, began := range []bool{false, true, true} {
		if fresh, err := tail.ask(t.Context(), began, 2); !fresh || err != nil {
			t.Fatal(fresh, err)
		}
	}
	return strings.Fields(out.String())
}
