package codec

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/seal"
	"github.com/grapnelhq/grapnel/policy"
)

// dataKeys is a seal.Table in memory.
type dataKeys map[string]seal.DataKey

func (t dataKeys) DataKeys(context.Context) (all []seal.DataKey, err error) {
	for _, k := range t {
		all = append(all, k)
	}
	return all, nil
}

func (t dataKeys) DataKey(_ context.Context, tenant string) (seal.DataKey, bool, error) {
	k, found := t[tenant]
	return k, found, nil
}

func (t dataKeys) AddDataKey(_ context.Context, k seal.DataKey) error {
	t[k.Tenant] = k
	return nil
}

func (t dataKeys) WrapDataKey(context.Context, seal.DataKey, string) error { return nil }

func sealerOf(t testing.TB, of dataKeys) *seal.Sealer {
	t.Helper()
	t.Setenv("GRAPNEL_TEST_MASTER", strings.Repeat("m", seal.MinLength))
	from, err := seal.ParseSource("env:GRAPNEL_TEST_MASTER")
	if err != nil {
		t.Fatal(err)
	}
	has, _ := of.DataKeys(t.Context())
	s, err := seal.New(t.Context(), from, has, of, true)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// sealedThings are one of each that is sealed, each with the canary wherever a text may come from
// outside.
type sealedThings struct {
	event   grapnel.Event
	attempt grapnel.Attempt
	aside   grapnel.Aside
	frozen  [2]Frozen // of the event and of the aside
	tried   []byte
	reason  string
}

const canary = "canary"

func freezeAll(t *testing.T, p *Packer, data string) (is sealedThings) {
	t.Helper()
	headers := []grapnel.Header{{Name: "X-" + canary, Value: canary}}
	intake := grapnel.Intake{Source: "src_1", At: someTime, Method: "POST", Path: canary, Remote: canary, Headers: headers,
		Checks: []grapnel.Check{{Text: canary}}}
	is.event = grapnel.Event{ID: "evt_1", Tenant: "acme", Data: []byte(data), Metadata: map[string]string{canary: canary}, AcceptedAt: someTime,
		Intake: &intake}
	is.attempt = grapnel.Attempt{Number: 3, StartedAt: someTime, StatusCode: 503, Class: policy.ClassStatus5xx, Error: canary,
		RequestHeaders: headers, ResponseHeaders: map[string]string{canary: canary}, ResponseBody: []byte(data), NextAttemptAt: someTime,
		ScheduledFor: someTime, Peer: grapnel.Peer{Address: canary, CertificateUntil: someTime}}
	is.aside = grapnel.Aside{ID: "req_1", Tenant: "acme", Why: grapnel.AsideRefused, Body: []byte(data), Size: len(data), Intake: intake}
	var err error
	must := func(what string) {
		if err != nil {
			t.Fatal(what, err)
		}
	}
	is.frozen[0], err = p.Freeze(t.Context(), &is.event)
	must("event")
	is.frozen[1], err = p.FreezeAside(t.Context(), &is.aside)
	must("aside")
	is.tried, err = p.EncodeAttempt(t.Context(), "acme", 7, &is.attempt)
	must("attempt")
	is.reason, err = p.SealReason(t.Context(), "acme", 7, grapnel.Failed, canary)
	must("reason")
	return is
}

// thawed reads everything as stored, for an event, a request and a delivery of these ids.
func (is *sealedThings) thawed(t *testing.T, p *Packer, tenant, id string, delivery int64) (back sealedThings, errs [5]error) {
	t.Helper()
	back.event = grapnel.Event{ID: id, Tenant: tenant, AcceptedAt: someTime}
	back.aside = grapnel.Aside{ID: "req_1", Tenant: tenant, Why: grapnel.AsideRefused, Size: is.aside.Size}
	errs[0] = p.Thaw(t.Context(), &back.event, &is.frozen[0])
	back.event.Intake, errs[1] = p.DecodeIntake(t.Context(), is.frozen[0].Intake, tenant, id)
	errs[2] = p.ThawAside(t.Context(), &back.aside, &is.frozen[1])
	in, err := p.DecodeIntake(t.Context(), is.frozen[1].Intake, tenant, "req_1")
	if errs[3] = err; in != nil {
		back.aside.Intake = *in
	}
	back.attempt, errs[4] = p.DecodeAttempt(t.Context(), delivery, is.tried)
	back.reason = p.OpenReason(t.Context(), delivery, is.reason)
	return back, errs
}

// TestPayloadsAreSealed: with sealing no stored value has the canary, without it each has. A packer
// that seals nothing new opens them all. No value opens in another row. Without the data key every
// payload is Erased, and the other fields are read as before.
func TestPayloadsAreSealed(t *testing.T) {
	keys := dataKeys{}
	sealer := sealerOf(t, keys)
	packer := func(s *seal.Sealer, seals bool) *Packer {
		p, err := NewPacker()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Close)
		p.Guard(s, seals)
		return p
	}
	on, off := packer(sealer, true), packer(sealer, false)
	for _, data := range []string{canary, strings.Repeat(canary, 500)} {
		in, out := freezeAll(t, off, data), freezeAll(t, on, data)
		for name, at := range map[string][2][]byte{"data": {in.frozen[0].Data, out.frozen[0].Data}, "metadata": {in.frozen[0].Metadata, out.frozen[0].Metadata},
			"intake": {in.frozen[0].Intake, out.frozen[0].Intake}, "body": {in.frozen[1].Data, out.frozen[1].Data},
			"request": {in.frozen[1].Intake, out.frozen[1].Intake}, "attempt": {in.tried, out.tried}, "reason": {[]byte(in.reason), []byte(out.reason)}} {
			if !bytes.Contains(at[0], []byte(canary)) || bytes.Contains(at[1], []byte(canary)) {
				t.Errorf("%s: the canary has to be in clear without sealing, and not with it", name)
			}
		}
		for what, is := range map[string]*sealedThings{"clear": &in, "sealed": &out} {
			for _, p := range []*Packer{on, off} {
				back, errs := is.thawed(t, p, "acme", "evt_1", 7)
				want := [...]any{is.event, is.aside, is.attempt, canary}
				if diff := cmp.Diff(want, [...]any{back.event, back.aside, back.attempt, back.reason}); diff != "" || errs != [5]error{} {
					t.Errorf("%s: %v (-went +came):\n%s", what, errs, diff)
				}
				empty, err := EmptyAttempt(is.tried)
				if a, failed := p.DecodeAttempt(t.Context(), 7, empty); err != nil || failed != nil || a.Error != "" || a.Last() != is.attempt.Last() {
					t.Errorf("%s, emptied: %+v, %v, %v", what, a, err, failed)
				}
				if last, err := DecodeLast(is.tried); err != nil || last != is.attempt.Last() {
					t.Errorf("%s: %+v, %v", what, last, err)
				}
			}
			for _, other := range []*sealedThings{&in, &out} {
				if same, err := off.Same(t.Context(), &is.event, &is.frozen[0], other.frozen[0].Data, other.frozen[0].Packed); !same || err != nil {
					t.Errorf("%s: the same data are other data, %v", what, err)
				}
			}
		}
		if _, errs := out.thawed(t, on, "acme", "evt_2", 8); errs[0] == nil || errs[1] == nil || errs[4] == nil {
			t.Errorf("they were opened at another place: %v", errs)
		}
		gone := packer(sealerOf(t, dataKeys{}), false)
		back, errs := out.thawed(t, gone, "acme", "evt_1", 7)
		a := back.attempt
		if errs != [5]error{} || !back.event.Erased || back.event.Data != nil || back.event.Metadata != nil || !back.aside.Erased || back.aside.Body != nil ||
			!a.Erased || a.Last() != out.attempt.Last() || a.Number != 3 || a.ResponseBody != nil || back.event.Intake.Source != "src_1" ||
			back.aside.Intake.At != someTime || back.reason != reasonErased {
			t.Errorf("without the data key: %+v, %v", back, errs)
		}
		if same, err := gone.Same(t.Context(), &in.event, &in.frozen[0], out.frozen[0].Data, out.frozen[0].Packed); same || err == nil {
			t.Error("erased data were compared")
		}
	}
	if len(keys) != 1 {
		t.Errorf("%d data keys", len(keys))
	}
}

// TestChangedSealedBytesAreNoticed: in data whose encoding says that they are sealed, and in
// reasons that look sealed and are none.
func TestChangedSealedBytesAreNoticed(t *testing.T) {
	p, err := NewPacker()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	p.Guard(sealerOf(t, dataKeys{}), true)
	is := freezeAll(t, p, canary)
	for _, b := range [][]byte{nil, []byte("x"), is.frozen[0].Data[:20]} {
		f := is.frozen[0]
		f.Data = b
		if err := p.Thaw(t.Context(), &is.event, &f); err == nil && !is.event.Erased {
			t.Errorf("%q was taken for sealed data", b)
		}
	}
	for i := bytes.Index(is.tried, []byte("acme")); i < len(is.tried); i++ {
		bad := bytes.Clone(is.tried)
		bad[i] ^= 4
		if a, err := p.DecodeAttempt(t.Context(), 7, bad); err == nil && !a.Erased { // another tenant or key has no such bytes
			t.Errorf("a change of byte %d was not noticed", i)
		}
	}
	for _, text := range []string{"sealed:", "sealed: by hand", "sealed:AAAA", is.reason[:20]} {
		if got := p.OpenReason(t.Context(), 7, text); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
}

// TestLayoutOfSealedValues opens values as they were sealed when the layout was new.
func TestLayoutOfSealedValues(t *testing.T) {
	text, err := os.ReadFile("testdata/sealed.txt")
	if err != nil {
		t.Fatal(err)
	}
	of := map[string][]byte{}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		of[name] = unhex(t, value)
	}
	p := new(Packer)
	want := freezeAll(t, p, canary)
	stored := want
	p.Guard(sealerOf(t, dataKeys{"acme": {Tenant: "acme", Master: "77f65909abba93e9", Wrapped: of["key"]}}), false)
	stored.frozen = [2]Frozen{{Data: of["data"], Packed: 4, Metadata: of["metadata"], Intake: of["intake"], Sum: 3907980625},
		{Data: of["body"], Packed: 4, Intake: want.frozen[1].Intake, Sum: 3194405423}}
	stored.tried, stored.reason = of["attempt"], string(of["reason"])
	back, errs := stored.thawed(t, p, "acme", "evt_1", 7)
	if diff := cmp.Diff([...]any{want.event, want.aside, want.attempt, canary}, [...]any{back.event, back.aside, back.attempt, back.reason}); diff != "" {
		t.Errorf("%v (-went +came):\n%s", errs, diff)
	}
}
