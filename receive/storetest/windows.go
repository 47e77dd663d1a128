package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/receive"
)

// RunWindows tests a store with the cases of sdk/conformance/windows.json, the content of which is
// text: the windows that a kit takes, and steps of a key at the edges of lease and window.
func RunWindows(t *testing.T, text []byte, open func(t *testing.T) receive.Store) {
	var file struct {
		Cases []struct {
			Name  string
			Given struct {
				Window int64 `json:"window_ms"`
				Span   int64 `json:"span_ms"`
				Lease  int64 `json:"lease_ms"`
				Steps  []struct {
					Op string
					At int64 `json:"at_ms"`
					By string
				}
			}
			Want struct {
				Results []any
				Error   bool
			}
		}
	}
	if err := json.Unmarshal(text, &file); err != nil || len(file.Cases) == 0 {
		t.Fatalf("%d cases, %v", len(file.Cases), err)
	}
	for _, c := range file.Cases {
		t.Run(c.Name, func(t *testing.T) {
			window, s := time.Duration(c.Given.Window)*time.Millisecond, open(t)
			if window == 0 {
				window = -1 // 0 is the default in Go
			}
			_, err := receive.New(receive.Options{Source: "acme", Verifier: receive.StandardWebhooks("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
				Store: s, Window: window, Span: time.Duration(c.Given.Span) * time.Millisecond})
			if (err != nil) != c.Want.Error {
				t.Errorf("the kit's error is %v; an error is wanted: %v", err, c.Want.Error)
			}
			owned := map[string]receive.Claim{}
			for n, step := range c.Given.Steps {
				now := time.UnixMilli(epoch.UnixMilli() + step.At)
				lease := now.Add(time.Duration(c.Given.Lease) * time.Millisecond)
				var got any = "ok"
				var err error
				switch step.Op {
				case "claim", "replay":
					// an owner's name is new for each bid, as the kit's are
					b := receive.Bid{Key: key, Owner: fmt.Sprintf("%s %d", step.By, n), Now: now, LeaseUntil: lease,
						KeepUntil: now.Add(window), Replay: step.Op == "replay"}
					var row receive.Claim
					row, err = s.Claim(t.Context(), b)
					switch {
					case row.Owner == b.Owner:
						got, owned[step.By] = "claimed", row
					case b.Replay:
						got = "refused"
					default:
						got = map[receive.State]string{receive.Done: "duplicate", receive.Busy: "in_progress", receive.Dead: "dead_lettered"}[row.State]
					}
				case "renew":
					err = s.Renew(t.Context(), owned[step.By], now, lease)
				case "clean":
					var n int
					n, err = s.Clean(t.Context(), "acme", now, 10)
					got = float64(n)
				default:
					to := map[string]receive.State{"complete": receive.Done, "release": receive.Free, "dead": receive.Dead}[step.Op]
					err = s.Settle(t.Context(), owned[step.By], to, receive.Processed, now)
				}
				if errors.Is(err, receive.ErrLostClaim) {
					got, err = "lost", nil
				}
				if err != nil || got != c.Want.Results[n] {
					t.Fatalf("step %d, %s by %s: %v, %v; want %v", n, step.Op, step.By, got, err, c.Want.Results[n])
				}
			}
		})
	}
}
