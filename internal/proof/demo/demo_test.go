package demo

import (
	"bytes"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/sign"
)

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// open starts receivers that trust the secret, and collects their receipts.
func open(t *testing.T) (*Receivers, chan Receipt) {
	t.Helper()
	receipts := make(chan Receipt, 16)
	r, err := Open(t.Context(), func(got Receipt) { receipts <- got })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	for _, receiver := range []string{Healthy, Flaky, Ledger} {
		if err := r.trust(receiver, secret); err != nil {
			t.Fatal(err)
		}
	}
	return r, receipts
}

// deliver sends a request as the server does, signed with a secret.
func deliver(t *testing.T, url, id, with, body string) int {
	t.Helper()
	now := time.Now()
	signature, err := sign.Sign(id, now, []byte(body), with)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Webhook-Id", id)
	req.Header.Set("Webhook-Timestamp", strconv.FormatInt(now.Unix(), 10))
	req.Header.Set("Webhook-Signature", signature)
	req.Header.Set("Grapnel-Attempt", "1")
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

func TestReceiversBelieveOnlyWhatIsSigned(t *testing.T) {
	r, receipts := open(t)
	const other = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	for _, tc := range []struct {
		path, with, body string
		want             int
	}{
		{Healthy, secret, `{"a":1}`, 200},
		{Healthy, other, `{"a":1}`, 401},
		{"nobody", secret, `{"a":1}`, 503},
		{Healthy, secret, strings.Repeat("x", maxBody+1), 413},
	} {
		if got := deliver(t, r.url(tc.path), "evt_1", tc.with, tc.body); got != tc.want {
			t.Errorf("%s, %.20s: answered %d, want %d", tc.path, tc.body, got, tc.want)
		}
		told := <-receipts
		if told.Status != tc.want || (told.Why == "") != (tc.want == 200) || strings.Contains(told.String(), "whsec_") {
			t.Errorf("told %+v", told)
		}
	}
}

func TestFlakyRefusesEveryThirdEventTwice(t *testing.T) {
	r, _ := open(t)
	var got []int
	for _, id := range []string{"a", "a", "a", "b", "c", "d", "d", "d", "a"} {
		got = append(got, deliver(t, r.url(Flaky), id, secret, "{}"))
	}
	want := []int{503, 503, 200, 200, 200, 503, 503, 200, 200}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("answered %v, want %v", got, want)
		}
	}
}

func TestFlakyIsDownForAWhile(t *testing.T) {
	r, _ := open(t)
	r.down(true)
	got := []int{deliver(t, r.url(Flaky), "a", secret, "{}"), deliver(t, r.url(Flaky), "a", secret, "{}")}
	r.down(false)
	for _, id := range []string{"a", "b", "b", "b", "c"} { // a was new while it was down; b is the first of three
		got = append(got, deliver(t, r.url(Flaky), id, secret, "{}"))
	}
	if want := []int{503, 503, 200, 503, 503, 200, 200}; !slices.Equal(got, want) {
		t.Errorf("answered %v, want %v", got, want)
	}
}

func TestLedgerBooksEachPaymentOnce(t *testing.T) {
	r, _ := open(t)
	const yen, euros = `{"data":{"amount":900,"currency":"JPY"}}`, `{"data":{"amount":10,"currency":"EUR"}}`
	send := func(id, body string) int { return deliver(t, r.url(Ledger), id, secret, body) }
	got := []int{send("a", yen), send("b", euros), send("b", euros), send("c", euros), send("d", "no JSON")}
	if want := []int{422, 500, 200, 200, 400}; !slices.Equal(got, want) {
		t.Errorf("answered %v, want %v", got, want)
	}
	if got, want := r.Count(), (Count{Requests: 3, Events: 2, Effects: 2, Naive: 3}); got != want {
		t.Errorf("counted %+v, want %+v", got, want)
	}
	r.Fix()
	if got := send("a", yen); got != 200 {
		t.Errorf("after the repair: answered %d", got)
	}
	if got, want := r.Count(), (Count{Requests: 4, Events: 3, Effects: 3, Naive: 4}); got != want {
		t.Errorf("counted %+v, want %+v", got, want)
	}
}
