package web

import (
	"context"
	"crypto/sha256"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/say"
)

// trouble is what the entry of that name counts: open issues and firing alerts.
type trouble struct {
	Alerts, Issues         int
	MoreAlerts, MoreIssues bool          // the counts are lower bounds
	Alert                  *client.Alert // the gravest; nil: none fires
	Issue                  *client.Issue // the one with most failures; nil: none is open
}

// number is the number beside the entry; "0" is not shown.
func (t *trouble) number() string {
	return say.Capped(t.Alerts+t.Issues, t.MoreAlerts || t.MoreIssues)
}

// troubles remembers the trouble of each session, so that many pages and live pages ask the API
// once. An answer is used for Bounds.Trouble, and for LiveRest times its duration as often as there
// are live pages: reading it takes no more of a processor than they may.
type troubles struct {
	mu sync.Mutex
	by map[[32]byte]*lastTrouble // by the session's pass; all are forgotten if there are too many
}

type lastTrouble struct {
	mu   sync.Mutex
	next time.Time
	is   trouble
	ok   bool
}

// trouble is the trouble that a session may see, as of a moment ago; false: the API did not tell.
func (w *web) trouble(r *http.Request, s *session) (trouble, bool) {
	last := w.lastTrouble(sha256.Sum256([]byte(s.Pass)))
	last.mu.Lock()
	defer last.mu.Unlock()
	began := w.Clock()
	if began.Before(last.next) {
		return last.is, last.ok
	}
	c, _ := w.caller(s.Pass, r)
	is, err := readTrouble(r.Context(), c, w.Bounds.Open)
	if r.Context().Err() != nil { // the browser has left; the next one asks again
		return last.is, last.ok
	}
	took := w.Clock().Sub(began)
	last.is, last.ok = is, err == nil
	last.next = began.Add(max(w.Bounds.Trouble, took*time.Duration(1+w.Bounds.LiveRest*w.live.count())))
	return last.is, last.ok
}

func (w *web) lastTrouble(of [32]byte) *lastTrouble {
	w.troubles.mu.Lock()
	defer w.troubles.mu.Unlock()
	last := w.troubles.by[of]
	if last == nil {
		if w.troubles.by == nil || len(w.troubles.by) >= w.Bounds.LiveAll {
			w.troubles.by = map[[32]byte]*lastTrouble{}
		}
		last = &lastTrouble{}
		w.troubles.by[of] = last
	}
	return last
}

func readTrouble(ctx context.Context, c *client.Client, most int) (t trouble, err error) {
	alerts, err := c.Alerts(ctx, client.AlertFilter{State: "firing", Limit: most})
	if err != nil {
		return t, err
	}
	issues, err := c.Issues(ctx, client.IssueFilter{States: []string{"open"}, Limit: most})
	if err != nil {
		return t, err
	}
	t.MoreAlerts, t.MoreIssues = alerts.Next != "", issues.Next != ""
	for i := range alerts.Data {
		a := &alerts.Data[i]
		if t.Alerts++; t.Alert == nil || gravity(a) > gravity(t.Alert) {
			t.Alert = a
		}
	}
	for i := range issues.Data {
		if t.Issues++; t.Issue == nil || issues.Data[i].Failures > t.Issue.Failures {
			t.Issue = &issues.Data[i]
		}
	}
	return t, nil
}

// gravity orders alerts by severity.
func gravity(a *client.Alert) int {
	return slices.Index([]string{grapnel.SeverityInfo, grapnel.SeverityWarning, grapnel.SeverityPage}, a.Severity)
}
