package engine

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// TestReceiversLearnNoRowID: neither a request, nor an operational event, nor a refusal says what
// the row id of a delivery is, and none has something computed from it that could be found by
// trying.
func TestReceiversLearnNoRowID(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		var sent []string
		b.endpoint("ep", &receiver{then: func(_ int, w http.ResponseWriter, r *http.Request) {
			sent = append(sent, r.Header.Get("Grapnel-Delivery"), r.Header.Get("X-Delivery"))
			w.WriteHeader(http.StatusUnprocessableEntity)
		}}, func(ep *grapnel.Endpoint) {
			brief(t)(ep)
			ep.Headers = map[string]string{"X-Delivery": "{delivery.id}"}
			ep.Policy.Then = "block"
		})
		b.watcher("wants", nil)
		b.publish("k", 2)
		time.Sleep(time.Hour)
		ds := b.deliveries("ep")
		for _, id := range sent {
			if id != b.store.IDs().Of(&ds[0]) {
				t.Errorf("the receiver got %q", id)
			}
		}
		_, err := b.engine.Retry(context.Background(), store.Everyone(), ds[1].Seq, grapnel.By{}, nil)
		if err == nil || !strings.Contains(err.Error(), b.store.IDs().Of(&ds[0])) || strings.Contains(err.Error(), ds[0].PlainID()) {
			t.Errorf("retrying one that waits behind its key: %v", err)
		}
		told := b.told("wants")
		if len(sent) != 4 || len(told) != 1 || told[0].data["delivery_id"] != b.store.IDs().Of(&ds[0]) {
			t.Fatalf("%d headers, told %+v", len(sent), told)
		}
		// The receiver knows everything that the event's id is made of but this.
		event, _, err := b.store.Event(context.Background(), store.Everyone(), "", told[0].id)
		if err != nil {
			t.Fatal(err)
		}
		for row := range int64(1000) {
			unique := sha256.Sum256(fmt.Appendf(nil, "%s %s %d %s", event.Type, "ep", event.AcceptedAt.UnixMicro(), fmt.Sprint(row, " ", 0)))
			if grapnel.NewID(grapnel.EventPrefix, event.AcceptedAt, bytes.NewReader(unique[:])) == event.ID {
				t.Errorf("the event's id is made of the row id %d", row)
			}
		}
	})
}
