package policy

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

func queueRules() []rule {
	return []rule{
		{"nack-at-once", "a nacked message comes back at once, so one that always fails spins", queue(func(q *QueueClaims) (bool, string) {
			return q.Nack == "at_once", "the waiting is left to the consumer, which asks for the next message without any"
		})},
		{"lease-silent", "nothing is said about a message whose consumer died", queue(func(q *QueueClaims) (bool, string) {
			return q.Lease == 0, "no lease and no time after which it is leased again"
		})},
		{"stops-when-empty", "the consumer ends when the queue is empty", queue(func(q *QueueClaims) (bool, string) {
			return q.Empty == "exits", "and there is no long poll"
		})},
		{"unknown-retried", "errors are to be classified, and unexpected ones are retried for ever", queue(func(q *QueueClaims) (bool, string) {
			return q.UnknownError == string(Retry), ""
		})},
		{
			"ack-unchecked",
			"the answer to an ack is not looked at, so a lost one is a silent duplicate",
			queue(func(q *QueueClaims) (bool, string) {
				return !q.AckChecked, ""
			}),
		},
		{"fact-outdated", "another provider does something else today", factOutdated},
		{"queue-silent", "nothing is said about what every consumer needs to know", queueSilent},
	}
}

func queue(check func(q *QueueClaims) (found bool, detail string)) func(c *Claims) []string {
	return func(c *Claims) []string {
		if c.Queue == nil {
			return nil
		}
		found, detail := check(c.Queue)
		return when(found, detail)
	}
}

func queueSilent(c *Claims) []string {
	q := c.Queue
	if q == nil {
		return nil
	}
	var silent []string
	for _, said := range []struct {
		missing bool
		what    string
	}{
		{q.Rejected == 0, "how long rejected messages are kept"}, {q.DeadReplay == "", "how they are replayed"},
		{q.Order == "", "order"}, {q.Copies == "", "whether each consumer gets a copy"},
	} {
		if said.missing {
			silent = append(silent, said.what)
		}
	}
	return when(len(silent) > 0, strings.Join(silent, ", "))
}

// providerFacts are the documented retries of other senders, as read in November 2026. Shopify
// changed in September 2024; GitHub's manual page on failed deliveries says that it never
// redelivers by itself.
func providerFacts() []FactClaim {
	return []FactClaim{
		{Provider: "stripe", Window: Duration(72 * time.Hour)},
		{Provider: "github", Retries: 0, Window: 0},
		{Provider: "shopify", Retries: 8, Window: Duration(4 * time.Hour)},
		{Provider: "twilio", Retries: 1, Window: Duration(15 * time.Second)},
	}
}

func factOutdated(c *Claims) []string {
	var found []string
	for _, said := range c.Facts {
		i := slices.IndexFunc(providerFacts(), func(f FactClaim) bool { return f.Provider == said.Provider })
		if i < 0 {
			continue
		}
		known := providerFacts()[i]
		if said.Window != known.Window || said.Retries != 0 && said.Retries != known.Retries {
			found = append(found, fmt.Sprintf("%s retries %s", said.Provider, known.text()))
		}
	}
	return found
}

func (f FactClaim) text() string {
	switch {
	case f.Window == 0:
		return "not at all by itself"
	case f.Retries == 0:
		return "for " + f.Window.String()
	case f.Retries == 1:
		return "once within " + f.Window.String()
	default:
		return fmt.Sprintf("%d times within %s", f.Retries, f.Window)
	}
}

// when is a detail that holds only under a condition.
func when(condition bool, detail string) []string {
	if !condition {
		return nil
	}
	return []string{detail}
}
