package api

import (
	"fmt"
	"net/http"
	"time"
	"unicode/utf8"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/backoff"
	"github.com/grapnelhq/grapnel/internal/face/api/strict"
	"github.com/grapnelhq/grapnel/internal/face/words"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/wire"
)

// A feed is the history of an endpoint for its receiver, to read what it has missed. Cursor and
// order are the store's (store.History.Feed); bodies are made as attempts make them.

func feedRoutes() []route {
	return []route{
		{method: "GET", path: "/v1/feed", scope: grapnel.ScopeRead, portal: grapnel.ScopeRead, handle: readFeed,
			name: "read-feed", tag: "Deliveries", summary: "Read the events that an endpoint should have received, the oldest first",
			about: "Each event once, whatever became of its delivery, and those of a key in their order. A reader that gives the next of each answer as the " +
				"after of its next request gets every event, also one whose publisher committed late. Pages end after limit events, or earlier where " +
				"bodies are large. A pass needs payload:read. " + fewTransforms,
			query: []param{
				{name: "endpoint", form: "id", required: true, doc: "an endpoint's id"},
				{name: "after", form: "cursor", doc: "next of the last page; not given: from the oldest event that is stored"},
				{name: "limit", bound: func(b *Bounds) strict.Form { return strict.WholeNumber(1, b.PageMost) }, doc: "how many events at most: 1 to 500, 50 if not given"},
				{name: "wait", bound: func(b *Bounds) strict.Form { return strict.Lasting(0, b.LongestWait, "20s") }, doc: "how long to wait for an event, 0s to 60s; 0s if not given"},
			}, gives: map[int]any{200: wire.Feed{}}},
	}
}

// feedCursor says whose cursors those of an endpoint's feed are. Every caller that may read the
// feed may go on with them.
func feedCursor(endpoint string) []string { return []string{"feed", endpoint} }

// feedMark reads the parameter after.
func (c *call) feedMark(endpoint string) *store.FeedMark {
	text := c.query.text("after")
	if text == "" {
		return nil
	}
	m := &store.FeedMark{Of: store.Identity{Endpoint: endpoint}}
	var created int64
	position, ok := c.cursors.read(feedCursor(endpoint), text)
	if _, err := fmt.Sscan(position, &m.Seq, &m.Of.Event, &created); !ok || err != nil {
		c.query.faults.Add("?after", "must be the next of an answer for the same endpoint")
	}
	m.Of.CreatedAt = time.UnixMicro(created)
	return m
}

func (c *call) feedNext(endpoint string, m store.FeedMark) string {
	created := int64(0)
	if m.Of.Event != 0 {
		created = m.Of.CreatedAt.UnixMicro()
	}
	return c.cursors.write(feedCursor(endpoint), fmt.Sprint(m.Seq, m.Of.Event, created))
}

func readFeed(a *api, c *call) (answer, error) {
	if !c.mayReadPayloads() {
		return answer{}, errHidden
	}
	ep, ok := a.Engine.Endpoint(c.scope, c.query.text("endpoint"))
	if !ok || !ep.Receives() {
		c.query.faults.Add("?endpoint", "must be the id of an endpoint; queues and channels have no feed")
	}
	limit, wait, mark := c.query.limit(), c.query.duration("wait"), c.feedMark(ep.ID)
	if err := c.query.faults.Err(); err != nil {
		return answer{}, err
	}
	if c.Method == http.MethodHead {
		wait = 0
	}
	if wait > 0 {
		c.patient(wait)
	}
	for out := (wire.Feed{Data: []wire.FeedItem{}}); ; {
		page, err := a.History.Feed(c.Context(), c.scope, store.FeedQuery{Endpoint: ep.ID, After: mark, Limit: limit})
		if err != nil {
			return answer{}, err
		}
		mark, out.Gap, out.More = &page.Next, out.Gap || page.Gap, page.More
		if err := a.fillFeed(c, &ep, &page, &out); err != nil {
			return answer{}, err
		}
		out.Next = c.feedNext(ep.ID, page.Next)
		if len(out.Data) > 0 || out.Gap || !out.More && wait <= 0 {
			return jsonAnswer(http.StatusOK, out), nil
		}
		if out.More { // all were redeliveries, or alerts that are hidden
			continue
		}
		if !backoff.Wait(c.Context().Done(), min(wait, a.Bounds.FeedPoll)) {
			return answer{}, c.Context().Err()
		}
		wait -= a.Bounds.FeedPoll
	}
}

// fillFeed adds the events of a page. If there are too many bytes, or transforms, the page ends
// earlier.
func (a *api) fillFeed(c *call, ep *grapnel.Endpoint, page *store.FeedPage, out *wire.Feed) error {
	look, size, transforms := a.look(c), int64(0), 0
	look.ask(page.Deliveries)
	var events []*grapnel.Event
	for i := range page.Deliveries {
		if atOnce := a.eventsRead(); i%atOnce == 0 {
			var seqs []int64
			for j := i; j < min(i+atOnce, len(page.Deliveries)); j++ {
				seqs = append(seqs, page.Deliveries[j].EventSeq)
			}
			var err error
			if events, err = a.History.Events(c.Context(), seqs); err != nil {
				return err
			}
		}
		d, ev := &page.Deliveries[i], events[i%a.eventsRead()]
		if d.ReplayOf != 0 {
			continue
		}
		if ev != nil && ep.ShapeAt(ev.AcceptedAt).Transform != "" {
			transforms++
		}
		item, err := a.feedItem(c, look, ep, d, ev)
		if full := size >= a.Bounds.PageData || transforms > a.Bounds.FeedTransforms; i > 0 && (full || err != nil) && len(out.Data) > 0 {
			page.Next, out.More = store.MarkOf(&page.Deliveries[i-1]), true
			return nil
		}
		if err != nil {
			return err
		}
		size += int64(len(item.BodyBase64))
		if item.Body != nil {
			size += int64(len(*item.Body))
		}
		out.Data = append(out.Data, item)
	}
	return nil
}

// feedItem shows a delivery with its body; ev is nil if the event cannot be read.
func (a *api) feedItem(c *call, look *look, ep *grapnel.Endpoint, d *grapnel.Delivery, ev *grapnel.Event) (wire.FeedItem, error) {
	item := wire.FeedItem{EventID: d.EventID, DeliveryID: c.ids.Of(d), Type: d.Type, Key: d.Key, Sequence: d.Position, AcceptedAt: d.CreatedAt,
		Status: look.situation(d).status()}
	if ev == nil {
		item.Missing = "The event's data was deleted, or is damaged."
		return item, nil
	}
	body, header, fault, err := a.bodyOf(ep, ev, d.CreatedAt)
	if err != nil || fault != "" {
		item.Missing = words.Sentence(fault)
		return item, err
	}
	item.Headers = make(map[string]string, len(header))
	for name := range header {
		item.Headers[name] = header.Get(name)
	}
	if utf8.Valid(body) {
		item.Body = new(string(body))
	} else {
		item.BodyBase64 = body
	}
	return item, nil
}
