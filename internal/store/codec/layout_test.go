package codec

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/seal"
	"github.com/grapnelhq/grapnel/policy"
)

// These are bytes of the first databases. Today's encoding is the same, and can decode them.

var someTime = time.UnixMicro(1_700_000_000_000_000).UTC()

func TestLayoutOfAttempts(t *testing.T) {
	a := grapnel.Attempt{Number: 2, Trigger: grapnel.TriggerManual, ScheduledFor: someTime, StartedAt: someTime.Add(time.Millisecond),
		Duration:   5 * time.Millisecond,
		Phases:     grapnel.Phases{DNS: 1, Connect: 2, TLS: 3, FirstByte: 4, Body: 5, Reused: true},
		StatusCode: 503, Class: policy.ClassLease, Error: "no", ResponseHeaders: map[string]string{"b": "2",
			"a": "1"}, ResponseBody: []byte("busy"),
		Decision: policy.Retry, NextAttemptAt: someTime.Add(time.Minute), PolicyRevision: 7}
	for class, stored := range map[policy.Class]string{
		policy.ClassLease: "0104038080f28183898506d08ff2818389850680ade204020406080a01ee0712026e6f020161013101620132046275737903809c8ebb838985060e",
		"of-tomorrow": "0104038080f28183898506d08ff2818389850680ade204020406080a01ee07000b6f662d746f6d6f72726f77026e6f020161013101620132046275737903809c8e" +
			"bb838985060e",
	} {
		a.Class = class
		sameBytes(t, stored, EncodeAttempt(&a))
		came, err := DecodeAttempt(unhex(t, stored))
		if diff := cmp.Diff(a, came); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
		last, err := DecodeLast(unhex(t, stored))
		if err != nil || last != a.Last() {
			t.Errorf("last: %+v, %v", last, err)
		}
	}
}

// A request's headers come after all other fields, and have a flag.
func TestLayoutOfRequests(t *testing.T) {
	a := grapnel.Attempt{Number: 1, Phases: grapnel.Phases{Reused: true}, RequestHeaders: []grapnel.Header{
		{Name: "User-Agent", Value: "G/1"}, {Name: "Webhook-Signature", Value: "v1," + strings.Repeat("A", 43) + "="}, {Name: "X-Own",
			Value: "[redacted]"},
	}}
	const stored = "01" + "0201ffffddf2dfffdfdc01ffffddf2dfffdfdc01" + "000000000000" + "03" + "000100000001ffffddf2dfffdfdc0100" + "03" +
		"0205472f31" +
		"0301" + "0000000000000000000000000000000000000000000000000000000000000000" + "0005582d4f776e00"
	sameBytes(t, stored, EncodeAttempt(&a))
	came, err := DecodeAttempt(unhex(t, stored))
	if diff := cmp.Diff(a, came, cmpopts.EquateEmpty()); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestLayoutOfEvents(t *testing.T) {
	packer, err := NewPacker()
	if err != nil {
		t.Fatal(err)
	}
	defer packer.Close()
	e := grapnel.Event{ID: "evt_1", Tenant: "acme", Type: "a.b", Key: "k", ContentType: "text/plain",
		Metadata:   map[string]string{"b": "2", "a": "1"},
		OccurredAt: someTime, AcceptedAt: someTime.Add(time.Second), Source: "src_1", Data: []byte("{}"),
		Intake: &grapnel.Intake{Source: "src_1", At: someTime, Method: "POST", Path: "/in/src_1", Remote: "192.0.2.1",
			Headers: []grapnel.Header{{Name: "X", Value: "y"}}, Checks: []grapnel.Check{{Passed: true, Text: "ok"}, {Text: "not"}},
			By: grapnel.ByContent, Known: "k"}}
	const (
		metadata = "020161013101620132"
		intake   = "0137650a87057372635f318080f2818389850604504f5354092f696e2f7372635f31093139322e302e322e3101015801790201026f6b00036e6f7404016b"
		zeros    = "28b52ffd60000f03800000 1"
	)
	f, err := packer.Freeze(t.Context(), &e)
	if err != nil {
		t.Fatal(err)
	}
	sameBytes(t, metadata, f.Metadata)
	sameBytes(t, intake, f.Intake)
	sameBytes(t, hex.EncodeToString([]byte("{}")), f.Data)
	if f.Sum != 3517074062 || f.Packed != 0 {
		t.Errorf("sum %d, packed %d", f.Sum, f.Packed)
	}
	if e.Source = ""; Sum(&e) != 2159977540 {
		t.Errorf("without a source the sum is %d", Sum(&e))
	}
	if came, err := packer.metadata(t.Context(), &e, unhex(t, metadata)); err != nil || !cmp.Equal(e.Metadata, came) {
		t.Errorf("metadata %v, %v", came, err)
	}
	if came, err := packer.DecodeIntake(t.Context(), unhex(t, intake), "acme", "evt_1"); err != nil || !cmp.Equal(e.Intake, came) {
		t.Errorf("intake %+v, %v", came, err)
	}
	// The compressed size depends on the library's version; decompression must work with every
	// version.
	data, packed, _ := strings.Cut(zeros, " ")
	if came, err := packer.open(t.Context(), seal.At{}, unhex(t, data), int64(packed[0]-'0')); err != nil || !bytes.Equal(came, make([]byte, 4096)) {
		t.Errorf("%d bytes, %v", len(came), err)
	}
	aside := grapnel.Aside{ID: "asd_1", Tenant: "acme", Why: grapnel.AsideConflict, Event: "evt_1", ContentType: "text/plain",
		Body: []byte("body")}
	if got := sumAside(&aside); got != 3724600278 {
		t.Errorf("the sum of what was set aside is %d", got)
	}
}

func TestLayoutOfTotals(t *testing.T) {
	const stored = "020406080a0c0ec00c030955e807"
	want := grapnel.Totals{Delivered: 1, Failed: 2, Dropped: 3, Discarded: 4, Skipped: 5, Retried: 6, FirstAttemptSuccess: 7, Attempts: 800}
	want.Latency[3], want.Latency[89] = 9, 1000
	sameBytes(t, stored, EncodeTotals(&want))
	if came, err := DecodeTotals(unhex(t, stored)); err != nil || came != want {
		t.Errorf("%+v, %v", came, err)
	}
	want.Latency[3], want.Success[127], want.FirstAttempts = 1<<33, 1<<34, 1<<35
	if came, err := DecodeTotals(EncodeTotals(&want)); err != nil || came != want {
		t.Errorf("of many attempts: %+v, %v", came, err)
	}
	for _, bad := range []string{"", stored[:10], stored[:26], stored + "5a01"} {
		if came, err := DecodeTotals(unhex(t, bad)); err == nil {
			t.Errorf("%q was taken for totals: %+v", bad, came)
		}
	}
}

// A class outside the list is stored as a text, and lists by class have to read every delivery with
// such a class.
func TestEveryClassHasAPlace(t *testing.T) {
	for _, class := range policy.Classes() {
		if _, known := Classes.Place(class); !known {
			t.Errorf("%q has none", class)
		}
	}
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func sameBytes(t *testing.T, want string, got []byte) {
	t.Helper()
	if hex.EncodeToString(got) != want {
		t.Errorf("it is written as\n%x and was\n%s", got, want)
	}
}
