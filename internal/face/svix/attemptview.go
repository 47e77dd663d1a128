package svix

import (
	"cmp"
	"strconv"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/policy"
	"github.com/grapnelhq/grapnel/wire"
)

// The states of messages and attempts, as Svix numbers them.
const (
	success = iota
	pending
	failed
	sending
	canceled
)

var stateTexts = [...]string{"success", "pending", "fail", "sending", "canceled"}

// standingOf is the state of a delivery. Svix shows messages that were never sent as successes to
// callers that do not know the state canceled.
func (a *ask) standingOf(d *wire.Delivery) standing {
	is := canceled
	switch d.Status {
	case grapnel.Delivered:
		is = success
	case grapnel.Failed:
		is = failed
	case grapnel.Pending, grapnel.Held:
		is = pending
	}
	if is == canceled && !a.truth("expanded_statuses", false) {
		is = success
	}
	return standing{Status: is, StatusText: stateTexts[is], NextAttempt: d.NextAttemptAt}
}

// viewAttempt is an attempt as Svix shows it.
func viewAttempt(d *wire.Delivery, at *wire.Attempt, address string, content bool) attemptOut {
	is := failed
	if at.Decision == policy.Deliver {
		is = success
	}
	out := attemptOut{ID: swapped(at.ID, "att_", "atmpt_"), MsgID: d.EventID, EndpointID: d.EndpointID, URL: address,
		Response: at.ResponseBody, StatusCode: at.StatusCode, DurationMS: time.Duration(at.Duration).Milliseconds(),
		Status: is, StatusText: stateTexts[is],
		Timestamp: at.StartedAt}
	if at.Trigger == grapnel.TriggerManual || at.Trigger == grapnel.TriggerReplay {
		out.Trigger = 1
	}
	if !content {
		out.Response = ""
	}
	if at.StatusCode == 0 && content {
		out.Response = cmp.Or(out.Response, at.Error)
	}
	return out
}

// picked is a filter of lists of attempts.
func (a *ask) picked() (func(*attemptOut) bool, error) {
	q := a.URL.Query()
	numbers := map[string]int{}
	for _, name := range []string{"status", "status_code_class"} {
		text := q.Get(name)
		if text == "" {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil {
			return nil, invalid("must be a number", "query", name)
		}
		numbers[name] = n
	}
	return func(at *attemptOut) bool {
		status, by := numbers["status"]
		class, byClass := numbers["status_code_class"]
		return (!by || at.Status == status) && (!byClass || at.StatusCode/100*100 == class)
	}, nil
}

// delivery reads a delivery with its attempts.
func (a *ask) delivery(id string) (*wire.Delivery, error) {
	var d wire.Delivery
	return &d, a.read(at("/v1/deliveries", id), nil, &d)
}
