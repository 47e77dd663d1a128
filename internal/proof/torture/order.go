package torture

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"
)

func olderVersions(ctx context.Context, t *trial) {
	key := t.key()
	newest := t.event(plain{key: key, version: 3, amount: "300", label: "version 3"})
	t.send(ctx, newest, request{label: "version 3"})
	for version := 1; version <= 2; version++ {
		label := fmt.Sprintf("version %d", version)
		t.send(ctx, t.optional(plain{key: key, version: version, amount: fmt.Sprint(version * 100), label: label}), request{label: label})
	}
	t.send(ctx, newest, request{label: "version 3 again"})
	t.settle(ctx, &State{Key: key, Field: "version", Want: "3"}, &State{Key: key, Field: "amount", Want: "300", extra: true})
}

func updateBeforeCreate(ctx context.Context, t *trial) {
	key := t.key()
	t.send(ctx, t.event(plain{kind: "invoice.updated", key: key, version: 2, amount: "200", label: "update"}), request{label: "update"})
	t.send(ctx, t.optional(plain{kind: "invoice.created", key: key, version: 1, amount: "100", label: "create"}), request{label: "create"})
	t.settle(ctx, &State{Key: key, Field: "version", Want: "2"})
}

// statusBackwards knows the machine draft → open → paid → refunded, open → void. The second key
// ends with a state that contradicts the one it has: a receiver may refuse it, or put it aside and
// stop the key for a person to look at.
func statusBackwards(ctx context.Context, t *trial) {
	for _, steps := range [][]struct{ status, then string }{
		{{"draft", "draft"}, {"open", "open"}, {"paid", "paid"}, {"open", "paid"}, {"refunded", "refunded"}, {"paid", "refunded"}},
		{{"draft", "draft"}, {"open", "open"}, {"paid", "paid"}, {"void", "paid"}},
	} {
		key := t.key()
		for i, step := range steps {
			e, allowed := t.event(plain{key: key, status: step.status, label: step.status}), Accepted
			if step.status != step.then {
				e.Least = 0
			}
			if step.status == "void" {
				allowed |= no
			}
			t.send(ctx, e, request{label: step.status, allowed: allowed})
			if e.Least == 1 || i == len(steps)-1 {
				t.settle(ctx, &State{Key: key, Field: "state", Want: step.then})
			}
		}
	}
}

// equalTimestamps sends the smaller id first, so that neither order by id nor by arrival makes the
// second one stale.
func equalTimestamps(ctx context.Context, t *trial) {
	key, at := t.key(), t.now().UTC()
	for _, amount := range []string{"100", "200"} {
		e := t.event(plain{kind: "invoice.updated", key: key, amount: amount, occurred: at.Format(time.RFC3339Nano), label: "amount " + amount})
		t.send(ctx, e, request{label: "amount " + amount})
	}
	older := t.optional(plain{kind: "invoice.updated", key: key, amount: "50", occurred: at.Add(-time.Second).Format(time.RFC3339Nano),
		label: "a second older"})
	t.send(ctx, older, request{label: "a second older"})
	t.settle(ctx, &State{Key: key, Field: "amount", Want: "200"})
}

// burst sends the versions of each key one after the other, and the keys beside each other.
func burst(ctx context.Context, t *trial) {
	var lanes sync.WaitGroup
	var want []*State
	each := max(1, t.Bounds.Burst/t.Bounds.Lanes)
	for range t.Bounds.Lanes {
		key := t.key()
		events := make([]*Event, each)
		for i := range events {
			events[i] = t.event(plain{kind: "invoice.updated", key: key, version: i + 1, amount: strconv.Itoa(i + 1)})
		}
		want = append(want, &State{Key: key, Field: "version", Want: strconv.Itoa(each), extra: true})
		lanes.Go(func() {
			for _, e := range events {
				for tries := 0; ctx.Err() == nil; tries++ {
					r := t.send(ctx, e, request{label: "event", allowed: Accepted | Busy | Conflict})
					if classOf(r.Status) == Accepted || r.Allowed&classOf(r.Status) == 0 {
						break
					}
					if tries == 20 {
						r.Allowed = Accepted
						break
					}
					rest(ctx, time.Duration(tries+1)*50*time.Millisecond)
				}
			}
		})
	}
	lanes.Wait()
	t.settle(ctx, want...)
}

// unknownTypes: an unknown type may have no effect, but must be taken; unknown fields do not
// matter.
func unknownTypes(ctx context.Context, t *trial) {
	t.send(ctx, t.optional(plain{kind: "torture.unknown", label: "unknown type"}), request{label: "unknown type"})
	t.send(ctx, t.event(plain{more: `"added_later":{"a":[1,2,3]},"x":null`, label: "unknown fields"}), request{label: "unknown fields"})
	t.send(ctx, t.event(plain{label: "unknown headers"}), request{label: "unknown headers", change: func(h http.Header) {
		h.Set("X-Added-Later", "1")
		h.Set("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	}})
	t.settle(ctx)
}

// errorClasses: a failure that passes leads to one effect by retries, one that does not pass is
// answered for good.
func errorClasses(ctx context.Context, t *trial) {
	passing := t.event(plain{label: "transient"})
	t.fail(ctx, passing, "transient", 1, 0)
	first := t.send(ctx, passing, request{label: "its handler fails once", allowed: Accepted | again})
	if classOf(first.Status)&again != 0 {
		t.retry(ctx, passing)
	}
	lasting := t.event(plain{label: "permanent"})
	lasting.Least, lasting.Most = 0, 0
	t.fail(ctx, lasting, "permanent", 100, 0)
	t.send(ctx, lasting, request{label: "its handler fails for good", allowed: Accepted | Refused})
	t.settle(ctx)
}
