package web

import (
	"strings"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/say"
)

// retryWaiting attempts the pending deliveries of the endpoint now.
func retryWaiting(v *visit) (string, error) {
	return v.retryAll(v.PathValue("id"), client.NewRetry{})
}

// retryIssue attempts now the deliveries whose last failure is as those of the issue.
func retryIssue(v *visit, i *client.Issue) (string, error) {
	r := client.NewRetry{StatusCode: i.StatusCode}
	if i.ErrorClass != "other" {
		r.ErrorClass = i.ErrorClass
	}
	return v.retryAll(i.EndpointID, r)
}

func (v *visit) retryAll(endpoint string, r client.NewRetry) (string, error) {
	r.Reason = byDashboard
	done, err := v.client.RetryAll(v.Context(), endpoint, r)
	switch {
	case err != nil:
		return "", err
	case done.Probe:
		return "The circuit is open: one delivery probes the endpoint. The others follow if it succeeds.", nil
	case done.Retried == 0:
		return "Nothing waits for a later attempt.", nil
	}
	said := say.Many(done.Retried, "delivery is", "deliveries are") + " attempted now; those behind follow in order."
	if done.More {
		said += " There are more: press it again."
	}
	return said, nil
}

// retryFound attempts now what the pending deliveries that a search finds wait for.
func (v *visit) retryFound(f client.DeliveryFilter) (string, error) {
	matched, retried, probed := 0, 0, 0
	for f.Limit = 500; matched < v.web.Bounds.Named; {
		done, err := v.client.RetryFound(v.Context(), f, byDashboard)
		if err != nil {
			return "", err
		}
		matched, retried, probed = matched+done.Matched, retried+done.Retried, probed+done.Probed
		if f.Cursor = ""; done.Next == nil {
			break
		}
		f.Cursor = *done.Next
	}
	said := "Of " + say.Many(matched, "delivery", "deliveries") + " that match, " + say.Many(retried, "is", "are") + " attempted now; those behind follow in order."
	if probed > 0 {
		said += " " + say.Many(probed, "endpoint with an open circuit is", "endpoints with an open circuit are") + " probed by one delivery each."
	}
	if f.Cursor != "" {
		said += " There are more: narrow the search to older ones."
	}
	return said, nil
}

// offerRetry offers to retry the first deliveries of stuck keys.
func (v *visit) offerRetry(to *verdict, endpoint string, lanes int, more bool) {
	if lanes == 0 {
		return
	}
	keys := say.Many(lanes, "stuck ordering key", "stuck ordering keys")
	if more {
		keys = say.Count(lanes) + "+ stuck ordering keys"
	}
	to.Next = strings.TrimSpace(to.Next + " " + sentenceCase(keys) + " wait for a later attempt.")
	v.offer(to, "/endpoints/{id}/retry", endpoint, act{Label: "Retry " + keys + " now"})
}

// offerReplay counts the endpoint's dead letters, and offers to replay them.
func (v *visit) offerReplay(to *verdict, endpoint string) error {
	dead, err := counted(v.client.DeadLetters(v.Context(), client.DeliveryFilter{Endpoint: endpoint, Limit: mostCounted}))
	if err != nil || dead == "" {
		return err
	}
	letters := map[bool]string{true: " dead letter.", false: " dead letters."}[dead == "1"]
	to.Next = strings.TrimSpace(to.Next + " It has " + dead + letters)
	if v.mayDo("/replays/start") {
		at := v.link("/replays/new" + withQuery("q", "endpoint:"+endpoint+" status:failed"))
		to.Acts = append(to.Acts, act{Label: "Replay All Failed (" + dead + ")", Href: at})
	}
	return nil
}

// mostCounted is how many deliveries a button counts.
const mostCounted = 99

// counted is the number of deliveries for a button; empty: there are none.
func counted(found *client.Page[client.Delivery], err error) (string, error) {
	switch {
	case err != nil || len(found.Data) == 0:
		return "", err
	case found.Next != "":
		return say.Count(len(found.Data)) + "+", nil
	}
	return say.Count(len(found.Data)), nil
}

// withQuery is such a query behind a path; empty: all values are.
func withQuery(pairs ...string) string {
	if q := given(pairs...); len(q) > 0 {
		return "?" + q.Encode()
	}
	return ""
}

func sentenceCase(word string) string { return strings.ToUpper(word[:1]) + word[1:] }

// byDashboard is the reason that the audit has of an action without one of its own.
const byDashboard = "from the dashboard"
