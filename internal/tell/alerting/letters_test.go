package alerting_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/memory"
	"github.com/grapnelhq/grapnel/internal/tell/alert"
	"github.com/grapnelhq/grapnel/internal/tell/alerting"
	"github.com/grapnelhq/grapnel/policy"
)

// TestDeadLettersAreTold: the first dead letter of an endpoint with one reason is a message, and so
// is the first with another reason. Those that follow are in one digest an hour, which says how
// many there are.
func TestDeadLettersAreTold(t *testing.T) {
	within(t, memory.New(), func(w *world) {
		chat := w.channel("chat", "acme")
		status := new(atomic.Int64)
		status.Store(422)
		set := func(ep *grapnel.Endpoint) {
			ep.EventTypes = []string{"order.paid"}
			ep.Policy.Classify = map[string]policy.Decision{"422": policy.Fail}
			ep.Policy.MaxAttempts = 1
		}
		for _, id := range []string{"shop", "crm"} {
			w.endpoint(id, http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(int(status.Load())) }), set)
		}
		time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(time.Hour + 90*time.Second)))
		events := 0
		publish := func() {
			events++
			w.publish(fmt.Sprintf("evt_%d", events), "order.paid")
			time.Sleep(2 * time.Minute)
		}
		publish()
		want := "crm.test: a delivery has failed for good (permanent) | shop.test: a delivery has failed for good (permanent)"
		if got := sortedTitles(letters(chat)); got != want {
			t.Fatalf("after the first dead letters the channel got %s", got)
		}
		if text := letters(chat)[0].data.Text; !strings.Contains(text, "1 dead letter since") || !strings.Contains(text, "422") {
			t.Errorf("the message says %q", text)
		}
		status.Store(500)
		publish()
		if got := sortedTitles(letters(chat)[2:]); got != strings.ReplaceAll(want, "permanent", "exhausted") {
			t.Errorf("after those with another reason the channel got %s", got)
		}
		publish()
		publish()
		if got := letters(chat); len(got) != 4 {
			t.Errorf("further ones within the hour were told at once: %v", got)
		}
		time.Sleep(time.Hour)
		got := letters(chat)[4:]
		if len(got) != 1 || got[0].kind != grapnel.EventAlertDigest || got[0].data.Title != "2 alerts go on" ||
			!strings.Contains(got[0].data.Text, "crm.test: a delivery has failed for good (exhausted): 3 dead letters since") {
			t.Errorf("after the hour the channel got %+v", got)
		}
		time.Sleep(24 * time.Hour)
		if got := letters(chat)[5:]; len(got) != 0 {
			t.Errorf("a day without dead letters later the channel got %v", got)
		}
		if open := w.alerts(alerting.Query{State: alert.Firing, Rule: alert.DeadLetter}); len(open) != 0 {
			t.Errorf("open are %+v", open)
		}
	})
}

// TestADeliveryThatKeepsFailing: the rule is off by default. Switched on, it tells of a delivery
// that has failed as often as its threshold says.
func TestADeliveryThatKeepsFailing(t *testing.T) {
	within(t, memory.New(), func(w *world) {
		chat := w.channel("chat", "acme")
		on, n := true, 4.0
		w.endpoint("shop", &receiver{down: true}, func(ep *grapnel.Endpoint) {
			ep.EventTypes = []string{"order.paid"}
			ep.Policy.Breaker = &policy.Breaker{Off: true}
			ep.Policy.Schedule = policy.Schedule{Mode: policy.SincePrevious, Delays: []policy.Duration{0, policy.Duration(time.Minute)},
				Tail: policy.TailRepeat}
			ep.Policy.Jitter = policy.Jitter{}
			ep.Policy.MaxAttempts = 50
		})
		w.publish("evt_1", "order.paid")
		told := func() (n int) {
			for _, m := range chat.messages() {
				if m.data.Rule == alert.FailedAttempts {
					n++
				}
			}
			return n
		}
		time.Sleep(10 * time.Minute)
		if told() != 0 {
			t.Error("a rule that is off was evaluated")
		}
		_, err := w.keeper.SetRule(ctx, store.Everyone(), "acme", alert.FailedAttempts, grapnel.By{Actor: "key_1"},
			func(alerting.Rule) (alert.Setting, error) { return alert.Setting{Enabled: &on, Threshold: &n}, nil })
		w.must(err)
		time.Sleep(time.Minute)
		if told() != 1 {
			t.Errorf("it was told %d times: %s", told(), titles(chat.messages()))
		}
	})
}

// sortedTitles are the titles of messages in the order of their letters.
func sortedTitles(all []message) string {
	return titles(slices.SortedFunc(slices.Values(all), func(a, b message) int { return strings.Compare(a.data.Title, b.data.Title) }))
}

// letters are the messages about dead letters, and digests.
func letters(r *receiver) (some []message) {
	for _, m := range r.messages() {
		if m.data.Rule == alert.DeadLetter || m.data.Rule == alert.DigestRule {
			some = append(some, m)
		}
	}
	return some
}
