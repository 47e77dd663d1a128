package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/face/api/openapi"
	"github.com/grapnelhq/grapnel/internal/face/api/strict"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/wire"
)

// newBatch is how several events are published.
type newBatch struct {
	Events []wire.NewEvent `json:"events" required:"true" minItems:"1" maxItems:"1000" nullable:"false"`
}

// publishedBatch is the answer: for each event, in order, a published or a Problem.
type publishedBatch struct {
	Data []json.RawMessage `json:"data" nullable:"false" doc:"one result or problem per event, in the order given"`
}

// batch gathers events of which some may be wrong. Those that are right are committed together.
type batch struct {
	a        *api
	c        *call
	prefix   string // of pointers: where the list of events is in the body
	incoming []store.Incoming
	named    map[int]bool // events with an id of their publisher's, by their place
	errors   []error      // parallel to the events given; nil: the next of incoming
}

// add takes one event in. raw is the document that object's Index counts in.
func (b *batch) add(raw []byte, object gjson.Result) {
	var f strict.Faults
	base := b.prefix + strconv.Itoa(len(b.errors)) + "/"
	d := readDraft(raw, object, base, &f)
	in := b.a.event(b.c, &d, base, &f)
	err := errors.Join(b.a.tooMuchData(d.data), f.Err())
	b.errors = append(b.errors, err)
	if err != nil {
		return
	}
	b.incoming = append(b.incoming, in)
	if d.id.given {
		if b.named == nil {
			b.named = map[int]bool{}
		}
		b.named[len(b.errors)-1] = true
	}
}

// publishBatch takes many events, in a list or one per line.
func publishBatch(a *api, c *call) (answer, error) {
	b := batch{a: a, c: c}
	media, err := c.route.body.contentType(c.Header)
	if err != nil {
		return answer{}, err
	}
	if media == openapi.TypeNDJSON {
		b.prefix = "/"
		err = b.readLines(c.body)
	} else {
		b.prefix = "/events/"
		err = b.readList(c.body)
	}
	if err != nil {
		return answer{}, err
	}
	if err := b.check(); err != nil {
		return answer{}, err
	}
	if len(b.incoming) == 0 {
		return answer{}, b.nothingValid()
	}
	return a.published(c, b.incoming, b.answer)
}

func (b *batch) readList(raw []byte) error {
	if err := strict.Check(raw, deepest); err != nil {
		return err
	}
	var f strict.Faults
	var events gjson.Result
	doc := strict.Document(raw)
	if !doc.IsObject() {
		f.Add("", "must be an object")
		return f.Err()
	}
	strict.Members(doc, "/", &f, func(v strict.Value) bool {
		if v.Name != "events" {
			return false
		}
		events = v.Result
		return true
	})
	switch {
	case !events.Exists():
		f.Add("/events", "is required")
	case !events.IsArray():
		f.Add("/events", "must be a list of events")
	}
	if err := f.Err(); err != nil {
		return err
	}
	var over error
	events.ForEach(func(_, event gjson.Result) bool {
		if over = b.full(); over == nil {
			b.add(raw, event)
		}
		return over == nil
	})
	return over
}

// readLines reads one event per line. A line that is not JSON is that line's problem; empty lines
// are nothing.
func (b *batch) readLines(raw []byte) error {
	for line := range bytes.Lines(raw) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		if err := b.full(); err != nil {
			return err
		}
		if err := strict.Check(line, deepest); err != nil {
			b.errors = append(b.errors, err)
			continue
		}
		line = slices.Clone(line) // so that the event keeps its line in memory, and not the whole batch
		b.add(line, strict.Document(line))
	}
	return nil
}

func (b *batch) full() error {
	if len(b.errors) < b.c.bounds.BatchEvents {
		return nil
	}
	return grapnel.Invalid(strings.TrimSuffix(b.prefix, "/"), "must be at most %d events", b.c.bounds.BatchEvents)
}

// nothingValid gathers the faults of a batch that has nothing to commit.
func (b *batch) nothingValid() error {
	all := &grapnel.Error{Code: grapnel.CodeInvalid, Detail: "The batch has no event that can be accepted."}
	if len(b.errors) == 0 {
		all.Fields = []grapnel.Field{{Pointer: "/events", Detail: "must have at least 1 event"}}
	}
	for i, err := range b.errors {
		var e *grapnel.Error
		if !errors.As(err, &e) || len(all.Fields) >= strict.MostFaults {
			continue
		}
		if len(e.Fields) == 0 {
			all.Fields = append(all.Fields, grapnel.Field{Pointer: b.prefix + strconv.Itoa(i), Detail: e.Detail})
		}
		all.Fields = append(all.Fields, e.Fields...)
	}
	return all
}

// answer lists what became of each event.
func (b *batch) answer(done store.Accepted) answer {
	out := make([]byte, 0, 128*len(b.errors)+16)
	out = append(out, `{"data":[`...)
	next := 0
	for i, err := range b.errors {
		if i > 0 {
			out = append(out, ',')
		}
		id, placed := "", store.Placed{}
		if err == nil {
			id, placed = b.incoming[next].Event.ID, done.Events[next]
			next++
			if placed.Conflict {
				err = errOtherContent
			}
		}
		if err != nil {
			out = append(out, bytes.TrimSpace(encode(b.c.problem(err)))...)
		} else {
			out = appendResult(out, id, placed)
		}
	}
	return answer{status: http.StatusAccepted, body: append(out, "]}"...)}
}

// check refuses events of a batch; the others stay.
func (b *batch) check() error {
	faults, err := b.a.Engine.Check(b.c.Context(), b.incoming)
	if err != nil || faults == nil {
		return err
	}
	kept, n := b.incoming[:0:0], 0
	for i := range b.errors {
		if b.errors[i] != nil {
			continue
		}
		in := b.incoming[n]
		if wrong := faults[n]; wrong != nil && !(b.named[i] && b.a.repeated(b.c, in.Event)) {
			var f strict.Faults
			refuse(&f, b.prefix+strconv.Itoa(i), wrong)
			b.errors[i] = f.Err()
		} else {
			kept = append(kept, in)
		}
		n++
	}
	b.incoming = kept
	return nil
}
