package words

import (
	"slices"
	"testing"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/policy"
	"github.com/grapnelhq/grapnel/wire"
)

// TestResultOfAnAck: what a consumer acknowledges has no status, and is no failure.
func TestResultOfAnAck(t *testing.T) {
	if got := Result(0, policy.ClassNone); got != "ack" {
		t.Errorf("an acknowledged message ended in %q", got)
	}
}

func TestTried(t *testing.T) {
	at := func(status int, class policy.Class) wire.Attempt {
		return wire.Attempt{StatusCode: status, ErrorClass: class}
	}
	for want, d := range map[string]wire.Delivery{
		"Nothing was sent yet.": {Status: grapnel.Pending},
		"No attempt was made.":  {Status: grapnel.Dropped},
		"The endpoint answered 503 three times and timed out once.": {Attempts: []wire.Attempt{at(503, "status_5xx"), at(503, "status_5xx"), at(0, "timeout"), at(503, "status_5xx")}},
		"The endpoint refused the connection twice.":                {Attempts: []wire.Attempt{at(0, "connect"), at(0, "connect")}},
		"4 attempts ended in 4 different ways.":                     {Attempts: []wire.Attempt{at(0, "dns"), at(0, "tls"), at(500, "status_5xx"), at(0, "reset")}},
		"The endpoint answered 500 8 times.":                        {Attempts: slices.Repeat([]wire.Attempt{at(500, "status_5xx")}, 8)},
	} {
		if got := Tried(&d); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
