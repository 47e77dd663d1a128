package server

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/wire"
)

// TestSecretAfterTheAddress: the order of steps that providers ask for works. The source is
// created, the provider sends, the server is restarted, and the secret makes events of the
// requests.
func TestSecretAfterTheAddress(t *testing.T) {
	o := options(t.TempDir())
	o.AdminKey = testKey
	s := start(t, o)
	c := s.client(t, testKey)
	src, err := c.CreateSource(t.Context(), client.NewSource{Name: "hub", Verify: client.NewVerify{Scheme: "github"}})
	if err != nil || !src.Waits || src.Unreachable == "" {
		t.Fatalf("%+v, %v", src, err)
	}
	if _, err := c.CreateQueue(t.Context(), client.NewQueue{Name: "mine", Source: src.ID}); err != nil {
		t.Fatal(err)
	}
	real, forger := s.hub(t, src, "the-secret-of-the-hub"), s.hub(t, src, "a-guessed-secret")
	const events = 3
	for i := range events {
		for range 2 { // the provider repeats each
			if got := real.send(fmt.Sprint("d-", i), fmt.Sprintf(`{"n":%d}`, i)); got.status != http.StatusAccepted {
				t.Fatalf("answered %+v", got)
			}
		}
	}
	if got := forger.send("d-9", `{"n":9}`); got.status != http.StatusAccepted {
		t.Fatalf("answered %+v", got)
	}
	s = s.again(t, o)
	c = s.client(t, testKey)
	if found, err := c.Next(t.Context(), "mine", client.Take{Max: 10}); err != nil || len(found) != 0 {
		t.Errorf("before the secret: %+v, %v", found, err)
	}
	src, err = c.RotateSourceSecret(t.Context(), src.ID, "the-secret-of-the-hub", 0)
	if err != nil || src.Waits || src.Released == nil || *src.Released != (wire.Released{Events: events, Duplicates: events, Quarantined: 1}) {
		t.Fatalf("%+v, %v", src.Released, err)
	}
	inbox, err := c.Inbox(t.Context(), client.InboxFilter{Source: src.ID, Limit: 100})
	if err != nil || len(inbox.Data) != events+1 {
		t.Fatalf("%+v, %v", inbox, err)
	}
	for _, r := range inbox.Data {
		if r.Outcome != wire.IntakeAccepted && r.Reason != "not verified: signature matches no secret" {
			t.Errorf("%s is %s: %s", r.ID, r.Outcome, r.Reason)
		}
	}
	found, err := c.Next(t.Context(), "mine", client.Take{Max: 10})
	if err != nil || len(found) != events {
		t.Errorf("then: %+v, %v", found, err)
	}
}
