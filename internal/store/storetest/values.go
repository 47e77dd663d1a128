package storetest

import (
	"encoding/json"
	"reflect"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
)

// The tenants and endpoints of the cases: two endpoints of acme, one of bolt.
const (
	acme = "acme"
	bolt = "bolt"
	epA  = "ep_a"
	epB  = "ep_b"
	epX  = "ep_x"
)

var everyone = store.Everyone()

// at is a moment some seconds after the beginning of all cases.
func at(seconds float64) time.Time {
	return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).Add(time.Duration(seconds * float64(time.Second)))
}

// event is an event of acme, accepted some seconds after the beginning.
func event(id, key string, accepted float64) *grapnel.Event {
	return &grapnel.Event{
		ID: id, Tenant: acme, Type: "invoice.paid", Key: key, Data: []byte(`{"id": "` + id + `"}`), ContentType: grapnel.JSONType,
		OccurredAt: at(accepted - 1), AcceptedAt: at(accepted),
	}
}

// to is the usual target: in the lane of the event's key.
func to(endpoint string) store.Target {
	return store.Target{Endpoint: endpoint, Ordered: true, Trigger: grapnel.TriggerSchedule}
}

func incoming(e *grapnel.Event, targets ...store.Target) store.Incoming {
	return store.Incoming{Event: e, Targets: targets}
}

func (d *driver) must(err error, what string) {
	d.Helper()
	if err != nil {
		d.Fatalf("%s: %v", what, err)
	}
}

func difference(got, want any) string {
	if reflect.DeepEqual(got, want) {
		return "" // nearly always, and much faster
	}
	return cmp.Diff(want, got, cmpopts.EquateEmpty(), cmp.Comparer(samePolicy), cmp.Comparer(sameSecret))
}

// samePolicy compares policies in their JSON form.
func samePolicy(a, b policy.Policy) bool {
	x, err := json.Marshal(a)
	if err != nil {
		return false
	}
	y, err := json.Marshal(b)
	return err == nil && string(x) == string(y)
}

func sameSecret(a, b grapnel.Secret) bool {
	return a.Text == b.Text && a.CreatedAt.Equal(b.CreatedAt) && a.ExpiresAt.Equal(b.ExpiresAt)
}

func (d *driver) config() store.Config {
	d.Helper()
	c, err := d.Config(d.ctx)
	d.must(err, "Config")
	version, newest, err := d.Version(d.ctx)
	if d.must(err, "Version"); version != c.Version || newest != c.Newest {
		d.Fatalf("Version is %d with newest %d, Config has %d with %d", version, newest, c.Version, c.Newest)
	}
	return c
}

// publish appends a batch against the current configuration.
func (d *driver) publish(events ...store.Incoming) store.Accepted {
	d.Helper()
	done, err := d.Append(d.ctx, store.Batch{Config: d.config().Version, Events: events})
	d.must(err, "Append")
	if len(done.Events) != len(events) {
		d.Fatalf("Append answered for %d of %d events", len(done.Events), len(events))
	}
	return done
}

// of returns the deliveries of an event.
func (d *driver) of(id string) []grapnel.Delivery {
	d.Helper()
	_, deliveries, err := d.Event(d.ctx, everyone, "", id)
	d.must(err, "Event "+id)
	return deliveries
}

func (d *driver) record(changes ...store.Change) []store.Changed {
	d.Helper()
	done, err := d.Record(d.ctx, changes)
	d.must(err, "Record")
	if len(done) != len(changes) {
		d.Fatalf("Record answered for %d of %d changes", len(done), len(changes))
	}
	return done
}

// each returns a value of each item.
func each[T, V any](list []T, value func(*T) V) []V {
	values := make([]V, len(list))
	for i := range list {
		values[i] = value(&list[i])
	}
	return values
}

// stepOver is a step from the replay's cursor over these deliveries.
func stepOver(r grapnel.Replay, of ...int64) store.ReplayStep {
	s := store.ReplayStep{Replay: r.ID, From: r.Cursor, To: r.Cursor, At: at(100)}
	for _, n := range of {
		s.Items, s.To = append(s.Items, store.Redelivery{Of: n, Ordered: true}), n
	}
	return s
}
