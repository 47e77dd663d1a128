package codec

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/rapidtest"
	"github.com/grapnelhq/grapnel/policy"
)

func drawWord[W ~string](t *rapid.T, list Words[W], what string) W {
	if rapid.Bool().Draw(t, what+" known") {
		return rapid.SampledFrom(list).Draw(t, what)
	}
	return W(rapid.String().Draw(t, what))
}

func drawTime(t *rapid.T, what string) time.Time {
	if rapid.Bool().Draw(t, what+" zero") {
		return time.Time{}
	}
	return Moment(rapid.Int64Range(-1<<50, 1<<52).Draw(t, what))
}

func drawSpan(t *rapid.T, what string) time.Duration {
	return time.Duration(rapid.Int64().Draw(t, what))
}

func drawAttempt(t *rapid.T) grapnel.Attempt {
	return grapnel.Attempt{
		Number: rapid.Int().Draw(t, "number"), Trigger: drawWord(t, Triggers, "trigger"),
		ScheduledFor: drawTime(t, "scheduled"), StartedAt: drawTime(t, "started"), Duration: drawSpan(t, "duration"),
		Phases: grapnel.Phases{DNS: drawSpan(t, "dns"), Connect: drawSpan(t, "connect"), TLS: drawSpan(t, "tls"),
			FirstByte: drawSpan(t, "first byte"), Body: drawSpan(t, "body"), Reused: rapid.Bool().Draw(t, "reused")},
		StatusCode: rapid.Int().Draw(t, "status"), Class: drawWord(t, Classes, "class"), Error: rapid.String().Draw(t, "error"),
		RequestHeaders: rapid.SliceOf(rapid.Custom(func(t *rapid.T) grapnel.Header {
			return grapnel.Header{Name: drawWord(t, headerNames, "name"), Value: rapid.OneOf(rapid.String(), rapid.Just(redacted),
				rapid.StringMatching("v1,[A-Za-z0-9+/]{43}="), rapid.StringMatching("v1,[A-Za-z0-9+/]{40}[A-Za-z0-9+/=\\r\\n]{4}")).Draw(t, "value")}
		})).Draw(t, "request"),
		ResponseHeaders: rapid.MapOf(rapid.String(), rapid.String()).Draw(t, "headers"),
		ResponseBody:    rapid.SliceOf(rapid.Byte()).Draw(t, "body"), Decision: drawWord(t, decisions, "decision"),
		NextAttemptAt: drawTime(t, "next"), PolicyRevision: rapid.Int64().Draw(t, "revision"),
	}
}

func TestAttemptsComeBackAsTheyWent(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		a := drawAttempt(t)
		body := EncodeAttempt(&a)
		back, err := DecodeAttempt(body)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(a, back, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("(-went +came):\n%s", diff)
		}
		// A part of it is an error, not a panic and not an attempt.
		if _, err := DecodeAttempt(body[:rapid.IntRange(0, len(body)-1).Draw(t, "cut")]); err == nil {
			t.Fatal("a part of an attempt was taken for one")
		}
	})
}

// An attempt that has every field set is not among the drawn ones if a field is added and forgotten
// there.
func TestEveryFieldOfAnAttemptIsKept(t *testing.T) {
	a := grapnel.Attempt{}
	fill(t, &a)
	a.Erased = false // says what could not be read
	back, err := DecodeAttempt(EncodeAttempt(&a))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(a, back); diff != "" {
		t.Fatalf("(-went +came):\n%s", diff)
	}
}

// TestBytesOfARequest: the stored request of an attempt is small compared with the rest of it.
func TestBytesOfARequest(t *testing.T) {
	a := grapnel.Attempt{Number: 1, Trigger: grapnel.TriggerSchedule, ScheduledFor: someTime, StartedAt: someTime,
		Duration: 3 * time.Millisecond,
		Phases: grapnel.Phases{FirstByte: 2 * time.Millisecond, Body: 20 * time.Microsecond,
			Reused: true}, StatusCode: 200, Class: policy.ClassNone,
		ResponseHeaders: map[string]string{"Content-Length": "2", "Content-Type": "text/plain; charset=utf-8",
			"Date": "Mon, 23 Nov 2026 03:00:00 GMT"},
		ResponseBody: []byte("ok"), Decision: policy.Deliver, PolicyRevision: 1}
	before := len(EncodeAttempt(&a))
	a.RequestHeaders = []grapnel.Header{{Name: "User-Agent", Value: "Grapnel/1.0.0"}, {Name: "Webhook-Signature",
		Value: "v1,ZOuans0gwgAuSShJpY9ERd6hc/SRxr4/k0gPsXJNsxo="}}
	sent := len(EncodeAttempt(&a)) - before
	a.RequestHeaders = append(a.RequestHeaders, grapnel.Header{Name: "Grapnel-Node", Value: "node-a"},
		grapnel.Header{Name: "Authorization", Value: redacted},
		grapnel.Header{Name: "X-Retry-Count", Value: "0"})
	if more := len(EncodeAttempt(&a)) - before - sent; sent != 50 || more != 27 {
		t.Errorf("%d bytes became %d more for a plain request, and %d more for one with a node, a secret and a retry count", before, sent, more)
	}
}

func FuzzDecodeAttempt(f *testing.F) {
	a := grapnel.Attempt{Number: 1, ResponseHeaders: map[string]string{"a": "b"}, Class: policy.ClassDNS}
	f.Add(EncodeAttempt(&a))
	a.RequestHeaders = []grapnel.Header{{Name: "User-Agent", Value: "x"}, {Name: "X-Own", Value: redacted}}
	f.Add(EncodeAttempt(&a))
	f.Add([]byte{attemptFormat, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		if a, err := DecodeAttempt(b); err == nil {
			_ = EncodeAttempt(&a)
		}
	})
}

func TestTimesAreKeptInMicroseconds(t *testing.T) {
	for _, at := range []time.Time{{}, time.Unix(0, 0), time.Unix(-5, 999_999_000), time.UnixMicro(math.MaxInt32), time.Now()} {
		want := at.UTC().Truncate(time.Microsecond)
		if got := Moment(Micros(at)); !got.Equal(want) || got.Location() != time.UTC || got.IsZero() != at.IsZero() {
			t.Errorf("%v came back as %v", at, got)
		}
	}
}
