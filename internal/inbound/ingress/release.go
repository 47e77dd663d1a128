package ingress

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/backoff"
	"github.com/grapnelhq/grapnel/internal/base/scheme"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Some providers show the secret only after they know the address, which has the source's id. So a
// source may be created without its secret. Requests that lack nothing but that are set aside, and
// verified again once the source has it. The stored requests are the list of the work: each is
// deleted after its event is durable, and its event's id is made of its own. So two nodes, or a
// second run after a kill, make one event of it.

// Waits says whether a source waits for its secret.
func Waits(s *grapnel.Source) bool {
	r := scheme.Find(s.Verify.Scheme)
	return s.Outbox == nil && s.Broker == nil && r != nil && r.MayWait() && len(s.Verify.Secrets) == 0
}

// Released says what became of the requests that waited for a source's secret.
type Released struct {
	Events, Duplicates, Conflicts int
	Left                          int // they stay in quarantine: the secret does not verify them
}

// Release verifies the requests that waited for a source's secret again, as of their arrival, in
// the order of their arrival. On an error the rest waits for the next call.
func (recv *Receiver) Release(ctx context.Context, id string) (done Released, err error) {
	s := recv.source(id)
	if s == nil || s.SecretAt.IsZero() || s.fault != nil {
		return done, nil
	}
	scope, last := store.Of(s.Tenant), s.SecretAt.Add(recv.o.Bounds.ReleaseLate)
	q := store.AsideQuery{Source: id, Why: grapnel.AsideUnverified, After: grapnel.AsidePrefix, Limit: recv.o.Bounds.ReleasePage}
	for {
		page, err := recv.o.Store.AsideList(ctx, scope, q)
		if err != nil {
			return done, err
		}
		more := len(page) == q.Limit && !page[len(page)-1].At.After(last)
		page, q.After = inOrder(page, more)
		for i := range page {
			if !waited(page[i].Checks) {
				continue
			}
			a, err := recv.o.Store.Aside(ctx, scope, page[i].ID)
			if err == nil {
				err = recv.release(ctx, s, &a, &done)
			}
			if err != nil && grapnel.CodeOf(err) != grapnel.CodeNotFound { // else another node was faster
				return done, err
			}
		}
		if !more {
			return done, nil
		}
	}
}

// inOrder sorts a page by the times of arrival, because ids are sorted by the millisecond only. If
// more pages follow, the last millisecond is left to the next one, unless the page has no other.
// after is the id behind which that begins.
func inOrder(page []grapnel.Aside, more bool) (sorted []grapnel.Aside, after string) {
	n := len(page)
	if n == 0 {
		return nil, ""
	}
	if more {
		for n > 0 && page[n-1].At.UnixMilli() == page[len(page)-1].At.UnixMilli() {
			n--
		}
		if n == 0 {
			n = len(page)
		}
	}
	after = page[n-1].ID
	slices.SortStableFunc(page[:n], func(a, b grapnel.Aside) int { return a.At.Compare(b.At) })
	return page[:n], after
}

// release verifies one request again.
func (recv *Receiver) release(ctx context.Context, s *source, a *grapnel.Aside, done *Released) error {
	in := recv.incoming(arrived(ctx, a), s, a.Body, a.At, recv.o.Now())
	stays := func() error {
		done.Left++
		a.Checks = in.checks
		return recv.o.Store.ChangeAside(ctx, *a, false)
	}
	if !in.verify() {
		return stays()
	}
	ev, placed, err := recv.place(in, grapnel.EventPrefix+strings.TrimPrefix(a.ID, grapnel.AsidePrefix), false)
	switch {
	case grapnel.CodeOf(err) == grapnel.CodeTooManyTypes:
		in.failed(refusal(err).Detail)
		return stays()
	case err != nil:
		return err
	case placed.Conflict: // a publisher has made an event with this id
		in.failed("an event has the id " + ev.ID + " already")
		return stays()
	case placed.Differs:
		done.Conflicts++
		a.Why, a.Event, a.Intake = grapnel.AsideConflict, placed.ID, *ev.Intake
		return recv.o.Store.ChangeAside(ctx, *a, false)
	case placed.Duplicate && placed.ID != ev.ID:
		done.Duplicates++
	default: // also if another node, or a run before, has made its event
		done.Events++
	}
	return recv.o.Store.ChangeAside(ctx, *a, true)
}

// arrived is a stored request as it arrived, without the secrets in its header.
func arrived(ctx context.Context, a *grapnel.Aside) *http.Request {
	r := &http.Request{Method: a.Method, URL: &url.URL{Opaque: a.Path}, Header: http.Header{}, RemoteAddr: net.JoinHostPort(a.Remote, "0")}
	if u, err := url.ParseRequestURI(a.Path); err == nil {
		r.URL = u
	}
	for _, h := range a.Headers {
		if h.Name == "Host" {
			r.Host = h.Value
		} else {
			r.Header[h.Name] = append(r.Header[h.Name], h.Value)
		}
	}
	return r.WithContext(ctx)
}

// Run releases the requests of sources that got their secret, on whatever node, until ctx ends.
func (recv *Receiver) Run(ctx context.Context) {
	finished, failures := map[string]time.Time{}, 0
	for ctx.Err() == nil {
		still := map[string]time.Time{}
		for _, s := range recv.o.Engine.Sources(store.Everyone()) {
			if s.SecretAt.IsZero() {
				continue
			}
			if at, is := finished[s.ID]; is && at.Equal(s.SecretAt) {
				still[s.ID] = at
				continue
			}
			now := recv.o.Now()
			done, err := recv.Release(ctx, s.ID)
			if done != (Released{}) {
				recv.o.Log.LogAttrs(ctx, slog.LevelInfo, "requests that waited for their source's secret verified", slog.String("source", s.ID),
					slog.Int("events", done.Events), slog.Int("duplicates", done.Duplicates), slog.Int("conflicts", done.Conflicts),
					slog.Int("quarantined", done.Left))
			}
			switch {
			case err == nil && now.After(s.SecretAt.Add(recv.o.Bounds.ReleaseLate)):
				still[s.ID] = s.SecretAt
			case err != nil && ctx.Err() == nil:
				if failures++; backoff.Tells(failures) {
					recv.o.Log.LogAttrs(ctx, slog.LevelWarn, "verifying requests that waited for their source's secret failed; retrying",
						slog.String("source", s.ID), slog.Any("error", err))
				}
			}
		}
		finished = still
		backoff.Wait(ctx.Done(), recv.o.Bounds.ReleaseEvery)
	}
}
