package web

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/say"
	"github.com/grapnelhq/grapnel/internal/face/words"
)

// outcome is a delivery after its first attempt, or before it if that takes longer than the context
// lasts.
func (v *visit) outcome(ctx context.Context, id string) (*client.Delivery, error) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		d, err := v.client.Delivery(v.Context(), id)
		if err != nil || d.AttemptsMade > 0 || d.Status.Final() {
			return d, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return d, nil
		}
	}
}

// mostAnswer is how much of an answer's body a sentence quotes, in characters.
const mostAnswer = 200

// testDid is what a receiver did with a test ("answered 422 after 31 ms."), and how its answer
// begins.
func testDid(d *client.Delivery) (did, begins string) {
	if len(d.Attempts) == 0 {
		return words.Did(d.Last.StatusCode, d.Last.ErrorClass) + ".", ""
	}
	a := &d.Attempts[len(d.Attempts)-1]
	body := []rune(strings.Join(strings.Fields(cmp.Or(a.ResponseBody, a.Error)), " "))
	if len(body) > mostAnswer {
		body = append(body[:mostAnswer], '…')
	}
	return words.Did(a.StatusCode, a.ErrorClass) + " after " + say.Took(a.Duration.Std()) + ".", string(body)
}

// tests makes the action that sends a test to the thing whose id is in the path, waits for the
// answer and says it. name is that of the receiver.
func tests(of, name string, in any) func(*visit) (string, error) {
	return func(v *visit) (string, error) {
		sent, err := v.orderOnce(of, v.PathValue("id"), "/test", in)
		if err != nil {
			return "", err
		}
		ctx, cancel := context.WithTimeout(v.Context(), v.web.Bounds.Answer)
		defer cancel()
		d, err := v.outcome(ctx, sent.ID)
		switch {
		case err != nil:
			return "", err
		case d.AttemptsMade == 0:
			return "The test is on its way. There is no answer yet; its delivery is in the list.", nil
		}
		did, begins := testDid(d)
		return strings.TrimSpace(name + " " + did + " " + begins), nil
	}
}
