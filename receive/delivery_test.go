package receive_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/receive"
)

// TestDecodeFailsForGood: a body that cannot be read into the handler's type stays so, whatever
// kind of error encoding/json has for it.
func TestDecodeFailsForGood(t *testing.T) {
	for _, body := range []string{``, `null,`, `{"amount":"much"}`, `{"amount":{}}`, `{"at":"yesterday"}`, `[]`} {
		var event struct {
			Amount json.Number `json:"amount"`
			At     time.Time   `json:"at"`
		}
		err := (&receive.Delivery{Body: []byte(body)}).Decode(&event)
		if got := receive.Classify(err); got != receive.Rejected {
			t.Errorf("%s: %v is %s", body, err, got)
		}
	}
}
