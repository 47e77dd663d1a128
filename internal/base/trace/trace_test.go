package trace

import (
	"strings"
	"testing"
)

const sample = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

func TestTraceparentsAreReadAndWritten(t *testing.T) {
	for text, want := range map[string]string{
		sample: sample,
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00",
		// Bits that this version does not know are not passed on; those of later versions are cut.
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-ff":       "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-03",
		"cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-later": sample,
		"cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01":       sample,

		"": "", "00": "", sample + "-more": "", sample + " ": "", " " + sample: "", strings.ToUpper(sample): "",
		"cc" + sample[2:] + "later": "", "ff" + sample[2:]: "", "0g" + sample[2:]: "", strings.Replace(sample, "-", "_", 2): "",
		"00-00000000000000000000000000000000-00f067aa0ba902b7-01": "", "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01": "",
		"00-4bf92f3577b34da6a3ce929d0e0e473X-00f067aa0ba902b7-01": "", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0\n": "",
	} {
		c, ok := Parse(text)
		if c.String() != want || ok != (want != "") || c.Valid() != ok {
			t.Errorf("%q became %q (%v), want %q", text, c, ok, want)
		}
		if id := c.TraceID(); ok && id != want[3:35] || !ok && id != "" {
			t.Errorf("%q has the trace id %q", text, id)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(sample)
	f.Add("cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x")
	f.Fuzz(func(t *testing.T, text string) {
		c, ok := Parse(text)
		if again, is := Parse(c.String()); ok && (again != c || !is) {
			t.Errorf("%q became %q", text, c)
		}
	})
}

func tracer(s Sampler) *Tracer {
	return New(Options{Settings: Settings{Endpoint: mustURL("http://127.0.0.1:1/v1/traces"), Sampler: s}})
}

func TestSamplersFollowTheCallerOrTheRatio(t *testing.T) {
	on, _ := Parse(sample)
	off := on
	off.Flags = 0
	var none *Tracer
	if c, is := none.Begin(on); is || c != on {
		t.Error("a nil tracer samples")
	}
	none.Record(Span{})
	for _, c := range []struct {
		sampler                  Sampler
		caller, silent, newTrace bool
	}{
		{Sampler{Ratio: 1}, true, false, true}, {Sampler{}, true, false, false},
		{Sampler{Always: true, Ratio: 1}, true, true, true}, {Sampler{Always: true}, false, false, false},
	} {
		tr := tracer(c.sampler)
		if _, sampled := tr.Next(on); sampled != c.caller { // an attempt, after a publish that was not sampled
			t.Errorf("%+v: the next span of a caller's trace is sampled: %v", c.sampler, sampled)
		}
		for parent, want := range map[Context]bool{on: c.caller, off: c.silent, {}: c.newTrace} {
			is, sampled := tr.Begin(parent)
			if sampled != want {
				t.Errorf("%+v of %q: sampled is %v", c.sampler, parent, sampled)
			}
			if !sampled && is != parent {
				t.Errorf("%+v of %q gave %q without sampling it", c.sampler, parent, is)
			}
			if sampled && (!is.Valid() || !is.Sampled() || is.Span == parent.Span || parent.Valid() && is.Trace != parent.Trace) {
				t.Errorf("%+v of %q gave %q", c.sampler, parent, is)
			}
		}
	}
	taken := 0
	tr := tracer(Sampler{Ratio: 0.25})
	for range 4000 {
		if _, sampled := tr.Begin(Context{}); sampled {
			taken++
		}
	}
	if taken < 800 || taken > 1200 {
		t.Errorf("a quarter of 4000 is %d", taken)
	}
}

// TestSpansCostThePublisherNoMemory: without a collector nothing is allocated, and with one a span
// is put into memory that the queue has already.
func TestSpansCostThePublisherNoMemory(t *testing.T) {
	parent, _ := Parse(sample)
	s, on := span(), tracer(Sampler{Ratio: 1})
	var off *Tracer
	if n := testing.AllocsPerRun(100, func() {
		_, _ = off.Begin(parent)
		_, _ = off.Next(parent)
		off.Record(s)
		on.Record(s)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
