package codec

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/grapnelhq/grapnel"
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
		ResponseHeaders: rapid.MapOf(rapid.String(), rapid.String()).Draw(t, "headers"),
		ResponseBody:    rapid.SliceOf(rapid.Byte()).Draw(t, "body"), Decision: drawWord(t, decisions, "decision"),
		NextAttemptAt: drawTime(t, "next"), PolicyRevision: rapid.Int64().Draw(t, "revision"),
	}
}

func TestAttemptsComeBackAsTheyWent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
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

// An attempt that has every field set is not among the drawn ones if a field is added and forgotten there.
func TestEveryFieldOfAnAttemptIsKept(t *testing.T) {
	a := grapnel.Attempt{}
	fill(t, &a)
	back, err := DecodeAttempt(EncodeAttempt(&a))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(a, back); diff != "" {
		t.Fatalf("(-went +came):\n%s", diff)
	}
}

func FuzzDecodeAttempt(f *testing.F) {
	a := grapnel.Attempt{Number: 1, ResponseHeaders: map[string]string{"a": "b"}, Class: policy.ClassDNS}
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
