package receive_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/grapnelhq/grapnel/receive"
)

// TestABatchIsItsEvents: each element of a verified array is an event of its own, claimed by its
// own id; the request succeeds if all do, and their repetitions, alone or together, are duplicates.
func TestABatchIsItsEvents(t *testing.T) {
	for mode, endpoint := range modes {
		t.Run(mode, func(t *testing.T) {
			var seen []receive.Observation
			k, _ := kit(t, receive.Options{Batches: true, Observe: func(o receive.Observation) { seen = append(seen, o) }})
			var ran []string
			bad := map[string]error{"evt_3": errFault}
			h := endpoint(k, func(_ context.Context, d *receive.Delivery) error {
				if string(d.Body) != element(d.ID) {
					t.Errorf("%s has %s", d.ID, d.Body)
				}
				ran = append(ran, d.ID)
				return bad[d.ID]
			})
			batch := "[" + element("evt_1") + ", " + element("evt_2") + "," + element("evt_3") + "," + element("evt_4") + " ]"
			r := request(t, "bat_1", batch)
			want(t, h, r, receive.Failed)
			if got := fmt.Sprint(ran); got != "[evt_1 evt_2 evt_3]" {
				t.Errorf("ran %s; the batch ends at its first failure", got)
			}
			var outcomes []receive.Outcome
			for _, o := range seen {
				outcomes = append(outcomes, o.Outcome)
			}
			if !slices.Equal(outcomes, []receive.Outcome{receive.Processed, receive.Processed, receive.Failed}) {
				t.Errorf("observed %v", outcomes)
			}
			bad, ran = nil, nil
			want(t, h, request(t, "evt_1", "["+element("evt_1")+"]"), receive.Duplicate)
			want(t, h, request(t, "evt_3", "["+element("evt_3")+"]"), receive.Processed)
			want(t, h, request(t, "evt_2", element("evt_2")), receive.Duplicate) // as format standard sends it
			want(t, h, request(t, "bat_1", batch), receive.Processed)
			want(t, h, request(t, "bat_1", batch), receive.Duplicate)
			if got := fmt.Sprint(ran); got != "[evt_3 evt_4]" {
				t.Errorf("ran %s", got)
			}
		})
	}
}

func element(id string) string { return `{"id":"` + id + `","data":{"n": 1.0}}` }

// TestABatchAnswersWithoutAPause: whatever ends one of several events, the sender is to send each
// alone, at once. An event that comes alone has the answer of its own.
func TestABatchAnswersWithoutAPause(t *testing.T) {
	for name, err := range map[string]error{"gone": receive.ErrGone, "later": receive.RetryAfter(9, errFault), "panics": nil} {
		k, _ := kit(t, receive.Options{Batches: true})
		h := k.Claim(func(_ context.Context, d *receive.Delivery) error {
			if d.ID == "evt_2" && name == "panics" {
				panic("inv_1")
			} else if d.ID == "evt_2" {
				return err
			}
			return nil
		})
		w := httptest.NewRecorder()
		h.ServeHTTP(w, request(t, "bat_1", "["+element("evt_1")+","+element("evt_2")+"]"))
		if w.Code != 503 || w.Header().Get("Retry-After") != "" {
			t.Errorf("%s: the batch is answered %d %v", name, w.Code, w.Header())
		}
	}
	k, _ := kit(t, receive.Options{Batches: true})
	h := k.Claim(func(_ context.Context, d *receive.Delivery) error {
		if d.ID == "evt_2" {
			return receive.Permanent(errFault)
		}
		return nil
	})
	want(t, h, request(t, "bat_1", "["+element("evt_2")+","+element("evt_1")+"]"), receive.Processed) // it is a dead letter here
	want(t, h, request(t, "evt_2", "["+element("evt_2")+"]"), receive.DeadLettered)
}

// TestWhatIsNoBatch: an array that cannot be split changes nothing, and without the option it is
// one event.
func TestWhatIsNoBatch(t *testing.T) {
	ran := 0
	handle := func(context.Context, *receive.Delivery) error { ran++; return nil }
	k, _ := kit(t, receive.Options{Batches: true})
	h := k.Claim(handle)
	for _, body := range []string{"[]", "[", "[1]", "[{}]", `[{"id":7}]`, `[{"id":""}]`, "[" + element("evt_1") + `,{"id":"` + strings.Repeat("x", 600) + `"}]`,
		"[" + element("evt_1") + "] more"} {
		want(t, h, request(t, "bat_1", body), receive.Malformed)
	}
	forged := request(t, "bat_1", "["+element("evt_1")+"]")
	forged.Header.Set("webhook-id", "bat_2")
	want(t, h, forged, receive.Unverified)
	if ran != 0 {
		t.Errorf("the handler ran %d times", ran)
	}
	plain, _ := kit(t, receive.Options{})
	want(t, plain.Claim(handle), request(t, "evt_1", "["+element("evt_2")+","+element("evt_3")+"]"), receive.Processed)
	if ran != 1 {
		t.Errorf("the handler ran %d times for one event", ran)
	}
}
