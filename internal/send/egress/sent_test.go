package egress

import (
	"net/textproto"
	"strings"
	"testing"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/policy"
)

// TestSentHeadersAreKept: an attempt and its delivery state the sent headers, without credentials
// of the receiver.
func TestSentHeadersAreKept(t *testing.T) {
	d := delivery(endpoint("http://hooks.example/in?x=1"))
	d.Endpoint.Signing, d.Endpoint.Policy.Preset, d.Endpoint.Format = grapnel.SigningSvix, "webhookify", grapnel.FormatCloudEvents
	d.Endpoint.Headers = map[string]string{
		"Authorization": "Bearer cr3dential",
		"X-Env":         "cr3dential",
		"X-Mixed":       "cr3dential-{event.id}",
		"X-Key":         "{event.key}",
	}
	d.Epoch = 7
	of := grapnel.Delivery{EventID: "evt_1", Position: d.Position, Seq: 5, CreatedAt: at(1767323045)()}
	d.ID = "dlv_1"
	wrote, r := wire(t, Options{Node: "node-a", Now: at(1767323045)}, d)
	attempt := grapnel.Attempt{Number: d.Number, Trigger: d.Trigger, StartedAt: r.StartedAt, RequestHeaders: r.Sent}
	kept := of.Sent(&attempt, d.ID)
	lines := strings.Split(strings.Split(wrote, "\r\n\r\n")[0], "\r\n")[1:]
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		switch name = textproto.CanonicalMIMEHeaderKey(name); {
		case name == "Host" || name == "Content-Length":
			continue
		case strings.Contains(value, "cr3dential"):
			value = "[redacted]"
		}
		if kept[name] != value {
			t.Errorf("%s: %q was sent, and %q is kept", name, value, kept[name])
		}
		delete(kept, name)
	}
	if len(kept) > 0 {
		t.Errorf("never sent: %v", kept)
	}
	refused := delivery(endpoint("http://10.0.0.1/"))
	if r := send(
		sender(t, Options{}),
		refused,
	); r.Outcome.Class != policy.ClassBlocked || r.Sent != nil ||
		of.Sent(&grapnel.Attempt{}, d.ID) != nil {
		t.Errorf("nothing was sent, and %v is kept", r.Sent)
	}
}
