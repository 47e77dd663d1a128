package ingress

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/bounds"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Room takes requests in. Any number of goroutines may use it; it has none of its own.
type Room struct {
	o       Options
	sources sync.Map // id → *source, of those that exist and were asked for
	busy    load
	metrics *metrics
}

// New makes a room.
func New(o Options) *Room {
	if o.Problem == nil {
		o.Problem = problem
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Random == nil {
		o.Random = rand.Reader
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.Bounds = bounds.Fill(o.Bounds)
	o.MaxBody = cmp.Or(o.MaxBody, DefaultMaxBody)
	o.MaxAtOnce = cmp.Or(o.MaxAtOnce, DefaultMaxAtOnce)
	o.MaxBuffered = cmp.Or(o.MaxBuffered, DefaultMaxBuffered)
	o.BodyTimeout = cmp.Or(o.BodyTimeout, DefaultBodyTimeout)
	room := &Room{o: o}
	room.metrics = newMetrics(room)
	return room
}

// Take answers one request for a source. Whoever routes has made sure that the method is POST.
func (room *Room) Take(w http.ResponseWriter, r *http.Request, id string) {
	s := room.source(id)
	if s == nil {
		room.refuse(w, r, nil, unknown, Refusal{Status: http.StatusNotFound, Code: grapnel.CodeNotFound, Detail: "There is no such source."})
		return
	}
	if s.Paused {
		room.refuse(w, r, s, paused, Refusal{Status: http.StatusServiceUnavailable, Code: grapnel.CodeUnavailable,
			Detail: "The source is paused.", RetryAfter: room.o.Bounds.WaitPaused})
		return
	}
	if s.fault != nil {
		room.refuse(w, r, s, failed, Refusal{Status: http.StatusServiceUnavailable, Code: grapnel.CodeUnavailable,
			Detail: "The source's settings cannot be used.", RetryAfter: room.o.Bounds.WaitFault, Err: s.fault})
		return
	}
	if refused := room.o.Bounds.look(r); refused != nil {
		room.refuse(w, r, s, unfit, *refused)
		return
	}
	if n := hops(r.Header); n > room.o.Bounds.Hops {
		room.refuse(w, r, s, looping, Refusal{Status: http.StatusUnprocessableEntity, Code: CodeLoop, Detail: fmt.Sprintf("The request has "+
			"come through %d servers like this one; %d are allowed. Find the endpoint that sends to a source it gets its events from.", n, room.o.Bounds.Hops)})
		return
	}
	limit := room.o.MaxBody
	if s.MaxBody > 0 {
		limit = min(limit, s.MaxBody)
	}
	bytes := limit
	if r.ContentLength >= 0 {
		bytes = min(limit, r.ContentLength)
	}
	if !room.enter(s, bytes) {
		room.refuse(w, r, s, busy, Refusal{Status: http.StatusServiceUnavailable, Code: grapnel.CodeOverloaded,
			Detail: "Too many requests are on their way.", RetryAfter: room.o.Bounds.WaitBusy})
		return
	}
	defer room.leave(s, bytes)
	room.take(w, r, s, limit)
}

// take reads a request and decides what becomes of it.
func (room *Room) take(w http.ResponseWriter, r *http.Request, s *source, limit int64) {
	body, refused := room.o.Bounds.receive(w, r, limit, room.o.BodyTimeout)
	if refused != nil {
		room.refuse(w, r, s, unread, *refused)
		return
	}
	in := &incoming{r: r, header: r.Header, body: body, now: room.o.Now(), source: s, checks: make([]grapnel.Check, 0, 4)}
	if !in.verify() {
		room.unverified(w, in)
		return
	}
	// Only what is verified uses up the provider's rate: otherwise anybody could use it up for him.
	if wait, ok := s.limit.take(in.now); !ok {
		room.refuse(w, r, s, limited, Refusal{Status: http.StatusTooManyRequests, Code: CodeRateLimited,
			Detail: "The source gets more requests than it may.", RetryAfter: wait})
		return
	}
	if in.greet(w) {
		room.metrics.count(s, greeted)
		return
	}
	room.publish(w, in)
}

// publish makes an event of a verified request, unless it is known.
func (room *Room) publish(w http.ResponseWriter, in *incoming) {
	ev := in.event(grapnel.NewID(grapnel.EventPrefix, in.now, room.o.Random))
	ev.Intake = in.intake()
	known := in.known(ev.Intake, ev.Type)
	done, err := room.o.Engine.Publish(in.r.Context(), []store.Incoming{{Event: ev, Known: known}}, nil)
	if err != nil {
		room.refuse(w, in.r, in.source, failed, refusal(err))
		return
	}
	placed := done.Events[0]
	switch {
	case placed.Conflict: // our own new id is taken, which does not happen; the provider sends it again
		room.refuse(w, in.r, in.source, failed, refusal(fmt.Errorf("the id %s is in use", ev.ID)))
	case placed.Differs:
		aside := room.aside(in, ev.Intake, grapnel.AsideConflict)
		aside.Event = placed.ID
		if err := room.o.Store.SetAside(in.r.Context(), aside); err != nil {
			room.refuse(w, in.r, in.source, failed, refusal(err))
			return
		}
		room.metrics.count(in.source, conflicting)
		taken(w, http.StatusOK, placed.ID, isConflict)
	case placed.Duplicate:
		room.metrics.count(in.source, repeated)
		taken(w, http.StatusOK, placed.ID, isDuplicate)
	default:
		room.metrics.count(in.source, accepted)
		taken(w, http.StatusAccepted, ev.ID, isNew)
	}
}

// unverified refuses a request or, if the source wants to see such, keeps it where nobody gets it.
func (room *Room) unverified(w http.ResponseWriter, in *incoming) {
	room.logUnverified(in)
	if in.source.OnUnverified != grapnel.Quarantine {
		if in.source.row.proof == byBasic {
			w.Header().Set("Www-Authenticate", `Basic realm="webhooks"`)
		}
		room.refuse(w, in.r, in.source, unverified, Refusal{Status: http.StatusUnauthorized, Code: CodeUnverified,
			Detail: "The request cannot be verified: " + in.complaint() + "."})
		return
	}
	if wait, ok := in.source.meter.aside.take(in.now); !ok {
		room.refuse(w, in.r, in.source, limited, Refusal{Status: http.StatusTooManyRequests, Code: CodeRateLimited,
			Detail: "The request cannot be verified, and too many such are kept already.", RetryAfter: wait})
		return
	}
	aside := room.aside(in, in.intake(), grapnel.AsideUnverified)
	if err := room.o.Store.SetAside(in.r.Context(), aside); err != nil {
		room.refuse(w, in.r, in.source, failed, refusal(err))
		return
	}
	room.metrics.count(in.source, quarantined)
	taken(w, http.StatusAccepted, aside.ID, isQuarantined)
}

// logUnverified says that a source gets requests that cannot be verified: a secret was rotated at the provider and not here, or
// somebody tries. Whoever can reach a source can send any number of them, so not each is a line.
func (room *Room) logUnverified(in *incoming) {
	requests, due := in.source.meter.unverified.add(in.now, room.o.Bounds.TallyEvery)
	if !due {
		return
	}
	message := "requests not verified; refused"
	if in.source.OnUnverified == grapnel.Quarantine {
		message = "requests not verified; quarantined"
	}
	room.o.Log.LogAttrs(in.r.Context(), slog.LevelInfo, message, slog.String("source", in.source.ID), slog.String("tenant", in.source.Tenant),
		slog.Int("requests", requests), slog.String("reason", in.complaint()))
}

// aside is a request that is kept and is no event.
func (room *Room) aside(in *incoming, how *grapnel.Intake, why grapnel.AsideReason) grapnel.Aside {
	return grapnel.Aside{
		ID: grapnel.NewID(grapnel.AsidePrefix, in.now, room.o.Random), Tenant: in.source.Tenant, Why: why,
		ContentType: in.media(), Body: in.body, Size: len(in.body), Intake: *how,
	}
}

// refuse answers that a request was not taken. What is the server's own fault is logged, but for overload and a full disk: who finds those
// says when they begin and when they end.
func (room *Room) refuse(w http.ResponseWriter, r *http.Request, s *source, as outcome, refused Refusal) {
	room.metrics.count(s, as)
	if refused.Err != nil && r.Context().Err() == nil && refused.Code != grapnel.CodeOverloaded && refused.Code != grapnel.CodeStorageFull {
		room.o.Log.LogAttrs(r.Context(), slog.LevelError, "a request could not be taken in",
			slog.String("source", s.ID), slog.Any("error", refused.Err))
	}
	room.o.Problem(w, r, refused)
}

// source finds a source, ready for use.
func (room *Room) source(id string) *source {
	now, there := room.o.Engine.Source(store.Everyone(), id)
	if !there || now.Outbox != nil { // nobody sends to an outbox
		room.sources.Delete(id)
		return nil
	}
	for {
		ready, _ := room.sources.Load(id)
		before, _ := ready.(*source)
		if before != nil && before.Revision == now.Revision {
			return before
		}
		// Of two requests that meet a new revision one makes it ready for both: what goes on at a source is counted in one place.
		s := prepare(now, before, &room.o.Bounds)
		if before == nil {
			if _, late := room.sources.LoadOrStore(id, s); !late {
				return s
			}
		} else if room.sources.CompareAndSwap(id, before, s) {
			return s
		}
	}
}

// load is what is going on.
type load struct{ requests, bytes atomic.Int64 }

func (l *load) add(requests, bytes int64) (all, size int64) {
	return l.requests.Add(requests), l.bytes.Add(bytes)
}

// enter counts a request in, if there is a place for it and for its body. One source has at most half of both.
func (room *Room) enter(s *source, bytes int64) bool {
	all, size := room.busy.add(1, bytes)
	mine, mySize := s.meter.busy.add(1, bytes)
	most, space := int64(room.o.MaxAtOnce), room.o.MaxBuffered
	if all > most || size > space || mine > max(most/2, 1) || mySize > max(space/2, bytes) {
		room.leave(s, bytes)
		return false
	}
	return true
}

func (room *Room) leave(s *source, bytes int64) {
	room.busy.add(-1, -bytes)
	s.meter.busy.add(-1, -bytes)
}
