package brokers

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/grapnelhq/grapnel"
)

// TestTargets: what is wrong with a target is said by its field.
func TestTargets(t *testing.T) {
	key := map[string]string{"routing_key": "q"}
	for _, tc := range []struct {
		target grapnel.Target
		field  string // empty: nothing is wrong
		url    string
	}{
		{grapnel.Target{Kind: "nats", Address: "nats://A.example,b.example:4333", Name: "x.y"}, "", "nats://a.example:4222/x.y"},
		{grapnel.Target{Kind: "nats", Address: "tls://[::1]:1", Name: "x", Options: map[string]string{"stream": "S"}}, "", "tls://[::1]:1/x"},
		{grapnel.Target{Kind: "nats", Address: "tls://::1", Name: "x"}, "", "tls://[::1]:4222/x"},
		{grapnel.Target{Kind: "nats", Address: "nats://a"}, "name", ""},
		{grapnel.Target{Kind: "nats", Address: "nats://a", Name: "x.*"}, "name", ""},
		{grapnel.Target{Kind: "nats", Address: "nats://a", Name: "x..y"}, "name", ""},
		{grapnel.Target{Kind: "nats", Address: "nats://a/path", Name: "x"}, "address", ""},
		{grapnel.Target{Kind: "nats", Address: "nats://me:secret@a", Name: "x"}, "address", ""},
		{grapnel.Target{Kind: "nats", Address: "nats://a:0", Name: "x"}, "address", ""},
		{grapnel.Target{Kind: "nats", Address: "nats://a:b:c", Name: "x"}, "address", ""},
		{grapnel.Target{Kind: "nats", Address: "nats://,a", Name: "x"}, "address", ""},
		{grapnel.Target{Kind: "nats", Address: "nats://" + strings.Repeat("a,", 16) + "a", Name: "x"}, "address", ""},
		{grapnel.Target{Kind: "nats", Address: "https://a", Name: "x"}, "address", ""},
		{grapnel.Target{Kind: "nats", Name: "x"}, "address", ""},
		{grapnel.Target{Kind: "nats", Address: "nats://a", Name: "x", Options: key}, "options/routing_key", ""},
		{grapnel.Target{Kind: "rabbitmq", Address: "amqps://a/shop%2F1", Name: "x"}, "", "amqps://a:5671/shop/1/x"},
		{grapnel.Target{Kind: "rabbitmq", Address: "amqp://a", Options: key}, "", "amqp://a:5672/"},
		{grapnel.Target{Kind: "rabbitmq", Address: "amqp://a"}, "name", ""},
		{grapnel.Target{Kind: "carrier pigeon"}, "kind", ""},
	} {
		_, _, faults := Read(&tc.target)
		got := ""
		if len(faults) > 0 {
			got = faults[0].Field
		}
		if got != tc.field {
			t.Errorf("%+v: the fault is at %q (%v), want %q", tc.target, got, faults, tc.field)
		}
		if tc.url != "" && URL(&tc.target) != tc.url {
			t.Errorf("%+v: shown as %s, want %s", tc.target, URL(&tc.target), tc.url)
		}
	}
}

// TestSources: a target that is read has the rows of sources.
func TestSources(t *testing.T) {
	for _, tc := range []struct {
		target grapnel.Target
		field  string
	}{
		{grapnel.Target{Kind: "nats", Address: "nats://a", Name: "S", Options: map[string]string{"consumer": "c", "subject": "a.>"}}, ""},
		{grapnel.Target{Kind: "nats", Address: "nats://a", Name: "a.b"}, "name"},
		{grapnel.Target{Kind: "nats", Address: "nats://a", Name: "S", Options: map[string]string{"consumer": "a b"}}, "options/consumer"},
		{grapnel.Target{Kind: "nats", Address: "nats://a", Name: "S", Options: map[string]string{"stream": "S"}}, "options/stream"},
		{grapnel.Target{Kind: "rabbitmq", Address: "amqp://a", Name: "q"}, ""},
		{grapnel.Target{Kind: "rabbitmq", Address: "amqp://a"}, "name"},
		{grapnel.Target{Kind: "rabbitmq", Address: "amqp://a", Name: "q", Options: map[string]string{"routing_key": "q"}}, "options/routing_key"},
		{grapnel.Target{Kind: "carrier pigeon"}, "kind"},
	} {
		_, _, faults := ReadSource(&tc.target)
		got := ""
		if len(faults) > 0 {
			got = faults[0].Field
		}
		if got != tc.field {
			t.Errorf("%+v: the fault is at %q (%v), want %q", tc.target, got, faults, tc.field)
		}
	}
}

// TestKindsOfOtherFlavours: a kind that this program lacks is told from one that there is not.
func TestKindsOfOtherFlavours(t *testing.T) {
	for _, name := range Known() {
		_, fault := KindOf(name)
		if has := slices.Contains(Linked(), name); has != (fault == nil) || !has && !strings.Contains(fault.Detail, "full") {
			t.Errorf("%s: linked is %v, the fault is %v", name, has, fault)
		}
	}
	for _, name := range Linked() {
		if !slices.Contains(Known(), name) {
			t.Errorf("%s is linked and not in the list of known kinds", name)
		}
	}
}

// TestRefusals: what a broker answers becomes the status that says the same. Errors of connections
// stay what they are.
func TestRefusals(t *testing.T) {
	cut := errors.New("connection reset")
	for _, tc := range []struct {
		err    error
		status int // 0: no refusal
	}{
		{refusedByNATS(nats.ErrNoResponders), 404}, {refusedByNATS(nats.ErrMaxPayload), 413}, {refusedByNATS(nats.ErrAuthorization), 401},
		{refusedByNATS(&jetstream.APIError{Code: 503, Description: "no space"}), 503},
		{refusedByNATS(&jetstream.APIError{Code: 410}), 502}, // a 410 would disable the endpoint
		{refusedByNATS(cut), 0}, {refusedByNATS(context.DeadlineExceeded), 0},
		{refusedByRabbit(&amqp.Error{Code: amqp.NotFound, Server: true}), 404},
		{refusedByRabbit(&amqp.Error{Code: amqp.AccessRefused}), 403}, // the library's own, of a login
		{refusedByRabbit(&amqp.Error{Code: amqp.ConnectionForced, Server: true}), 503},
		{refusedByRabbit(&amqp.Error{Code: amqp.FrameError}), 0}, {refusedByRabbit(amqp.ErrClosed), 0}, {refusedByRabbit(cut), 0},
	} {
		var refused *Refusal
		if status := 0; errors.As(tc.err, &refused) != (tc.status != 0) {
			t.Errorf("%v: refusal %v, want %d", tc.err, refused, tc.status)
		} else if refused != nil {
			if status = refused.Status; status != tc.status {
				t.Errorf("%v: status %d, want %d", tc.err, status, tc.status)
			}
		}
	}
}
