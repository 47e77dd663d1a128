package web

import (
	"context"
	"crypto/sha256"
	"net/http"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/say"
)

// number is the number beside the entry; "0" is not shown.
func (t *trouble) number() string {
	return say.Capped(t.Alerts+t.Issues, t.MoreAlerts || t.MoreIssues)
}

// trouble is the trouble that a session may see, as of a moment ago; false: the API did not tell.
func (w *web) trouble(r *http.Request, s *session) (trouble, bool) {
	last := w.lastTrouble(sha256.Sum256([]byte(s.Pass + " " + s.Tenant)))
	last.mu.Lock()
	defer last.mu.Unlock()
	began := w.Clock()
	if began.Before(last.next) {
		return last.is, last.ok
	}
	c, _ := w.caller(s.Pass, s.Tenant, r)
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
	var (
		alerts *client.Page[client.Alert]
		issues *client.Page[client.Issue]
		ask    errgroup.Group
	)
	ask.Go(func() (err error) {
		alerts, err = c.Alerts(ctx, client.AlertFilter{State: "firing", Limit: most})
		return err
	})
	ask.Go(func() (err error) {
		issues, err = c.Issues(ctx, client.IssueFilter{States: []string{"open"}, Limit: most})
		return err
	})
	if err := ask.Wait(); err != nil {
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
