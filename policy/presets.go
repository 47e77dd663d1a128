package policy

import (
	"cmp"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Presets returns the built-in policies, as fresh copies. Each follows the document that it is
// named after; docs/policies.md lists the contradictions in those documents and the reading that
// was chosen.
func Presets() []Policy {
	presets := []Policy{usual(), standard()}
	for _, change := range variations() {
		p := standard()
		p.Jitter = Jitter{} // only where the document has one
		change(&p)
		p.Preset = p.Name
		presets = append(presets, p)
	}
	return presets
}

// Preset returns one of the presets.
func Preset(name string) (Policy, bool) {
	all := Presets()
	i := slices.IndexFunc(all, func(p Policy) bool { return p.Name == name })
	if i < 0 {
		return Policy{}, false
	}
	return all[i], true
}

// DefaultPreset is the policy of endpoints that name none, and the base of policies that name none.
const DefaultPreset = "default"

// Shape has the request settings of a preset's document, for an endpoint that does not say them
// itself. A policy has the shape of the preset that it was made from, whatever else was changed.
type Shape struct {
	Headers   map[string]string // values may hold names in braces
	Transform string            // a jq expression over the standard body; empty: the body as it is
	Format    string            // of the body; empty: nothing is said
	Ordering  string            // key or none; empty: nothing is said
}

// RequestShape is the shape that the policy's preset brings with it.
func (p *Policy) RequestShape() Shape { return ShapeOf(p.shape()) }

func (p *Policy) shape() string { return cmp.Or(p.Shape, p.Preset) }

// Copy is a policy that has this one as its base, under this name, and differs in nothing.
func (p Policy) Copy(of string) Policy {
	shape := p.shape()
	p.Name, p.Preset, p.Shape = "", of, ""
	if shape != of && !reflect.DeepEqual(ShapeOf(shape), ShapeOf(of)) {
		p.Shape = shape
	}
	return p
}

// Changes are the fields, by their names in JSON, in which the policy differs from its base.
func (p Policy) Changes(base Policy) (names []string) {
	p.Shape, base.Shape = p.shape(), base.shape()
	if reflect.DeepEqual(p.RequestShape(), base.RequestShape()) {
		p.Shape = base.Shape
	}
	is, was := fieldsOf(p), fieldsOf(base)
	for f := range reflect.TypeFor[Policy]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name != "name" && name != "preset" && string(is[name]) != string(was[name]) {
			names = append(names, name)
		}
	}
	return names
}

func fieldsOf(p Policy) (fields map[string]json.RawMessage) {
	if raw, err := json.Marshal(p); err == nil {
		_ = json.Unmarshal(raw, &fields) // it was just written
	}
	return fields
}

// ShapeOf returns the shape of a preset's document; that of all others is empty.
func ShapeOf(preset string) Shape {
	switch preset {
	case "parseo": // "No ordering guarantee. Reconcile state by the event's occurredAt timestamp"
		return Shape{Transform: `. + {occurredAt: .timestamp}`, Ordering: "none"}
	case "paylera", "paylera-24h": // "Strict FIFO per aggregate_id"
		return Shape{Ordering: "key"}
	case "sent": // "the X-Webhook-ID header [...] is the unique delivery identifier"; its samples read the data as the whole body
		return Shape{Headers: map[string]string{"X-Webhook-ID": "{event.id}"}, Format: "raw", Ordering: "none"}
	case "webhookify": // "req.headers['x-retry-count']", and "req.body.id || req.headers['x-webhook-id']"
		return Shape{Headers: map[string]string{"X-Webhook-ID": "{event.id}", "X-Retry-Count": "{retry}"}}
	}
	return Shape{}
}

const (
	sec  = Duration(time.Second)
	mins = Duration(time.Minute)
	hour = Duration(time.Hour)
)

// usual is standard, but for answers that say that the event is unfit: no time heals them, so they
// get the three attempts that standard makes within ten minutes. Answers that a deploy or a
// rotation of credentials heals (401, 403, 404, 405) are retried for days, as is everything else.
func usual() Policy {
	p := standard()
	p.Name, p.Preset = DefaultPreset, DefaultPreset
	p.Limits = []Limit{{Codes: []string{"400", "413", "415", "422"}, Attempts: 3, Within: 10 * mins}}
	return p
}

// standard has the schedule of the Standard Webhooks specification. The other presets are
// variations of it.
func standard() Policy {
	return Policy{
		Name:        "standard",
		Preset:      "standard",
		Timeout:     15 * sec,
		Schedule:    stopping(0, 5*sec, 5*mins, 30*mins, 2*hour, 5*hour, 10*hour, 14*hour, 20*hour, 24*hour),
		Jitter:      Jitter{Fraction: 0.1},
		MaxAttempts: 10,
		Success:     []string{"2xx"},
		Classify:    map[string]Decision{"410": DisableEndpoint, "429": Throttle},
		RetryAfter:  RetryAfterExtend,
		OnExhausted: DeadLetter,
		Then:        Advance,
		Disable:     Disable{Of: ClassStatus4xx, After: 120 * hour, Pending: PendingHold},
	}
}

// variations is each further preset as its difference from standard.
func variations() []func(p *Policy) {
	return []func(p *Policy){
		func(p *Policy) {
			p.Name = "parseo"
			p.Timeout = 30 * sec
			p.Schedule = stopping(0, sec, 5*sec, 30*sec, 5*mins, 30*mins, 2*hour, 6*hour, 24*hour)
			p.MaxAttempts = 9
			p.Classify = everyAnswerRetried()
		},
		func(p *Policy) {
			p.Name = "paylera"
			paylera(p)
		},
		func(p *Policy) {
			p.Name = "paylera-24h"
			paylera(p)
			p.Schedule.Mode = SinceFirst
			p.MaxAge = 24 * hour
		},
		func(p *Policy) {
			p.Name = "sent"
			p.Timeout = 5 * sec
			p.Schedule = stopping(0, 5*sec, 25*sec, 2*mins, 10*mins, hour)
			p.Schedule.Tail = TailRepeat
			p.MaxAttempts = 0
			p.MaxAge = 24 * hour
			p.OnExhausted = Discard
			p.Classify = everyAnswerRetried()
		},
		func(p *Policy) {
			p.Name = "webhookify"
			p.Timeout = 30 * sec
			p.Schedule = stopping(0, mins, 5*mins, 30*mins, 2*hour, 8*hour, 24*hour)
			p.Jitter = Jitter{Add: 5 * sec}
			p.MaxAttempts = 7
			p.Classify = map[string]Decision{
				"400": Fail, "401": Retry, "403": Retry, "404": Fail, "410": DisableEndpoint, "429": Throttle,
			}
		},
		func(p *Policy) {
			p.Name = QueuePreset
			pulled(p)
		},
		func(p *Policy) {
			p.Name = "hooque" // another name of the same, after its document
			pulled(p)
		},
		func(p *Policy) {
			p.Name = "svix"
			p.Schedule = stopping(0, 5*sec, 5*mins, 30*mins, 2*hour, 5*hour, 10*hour, 10*hour)
			p.Jitter = Jitter{Fraction: 0.1}
			p.MaxAttempts = 8
		},
	}
}

// everyAnswerRetried is for documents that retry every answer but 2xx, and so a 410. The pause
// after a 429 is Grapnel's own: it is a retry too, and uses up an attempt.
func everyAnswerRetried() map[string]Decision {
	return map[string]Decision{"410": Retry, "429": Throttle}
}

// paylera disables for 4xx alone, as its document says; the document gives no time after which a
// dead endpoint is disabled.
func paylera(p *Policy) {
	p.Timeout = 10 * sec
	p.Schedule = stopping(0, 15*sec, mins, 5*mins, 30*mins, 2*hour, 6*hour, 12*hour, 24*hour)
	p.MaxAttempts = 9
	p.Classify = everyAnswerRetried()
	p.Disable = Disable{Consecutive: 100, Of: ClassStatus4xx, Pending: PendingDrop}
}

// QueuePreset is the policy of queues that name none.
const QueuePreset = "queue"

// pulled is for queues: a nack counts as a 5xx, a reject as a 4xx.
func pulled(p *Policy) {
	p.Timeout = 30 * sec
	p.Schedule = Schedule{Mode: Exponential, Base: sec, Factor: 2, Max: 5 * mins}
	// The document asks for full jitter, 0 to 100 % of the wait. Jitter here is never early, so the
	// same spread follows the wait.
	p.Jitter = Jitter{Fraction: 1}
	p.MaxAttempts = 10
	p.Classify = map[string]Decision{
		"4xx": Fail, "408": Retry, "425": Retry, "410": DisableEndpoint, "429": Throttle,
	}
}

func stopping(delays ...Duration) Schedule {
	return Schedule{Mode: SincePrevious, Delays: delays, Tail: TailStop}
}
