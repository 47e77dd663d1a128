package codec

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnelhq/grapnel"
)

func TestEveryFieldOfAnIntakeIsKept(t *testing.T) {
	var went grapnel.Intake
	fill(t, &went)
	clear, sealing := new(Packer), new(Packer)
	sealing.Guard(sealerOf(t, dataKeys{}), true)
	for n, in := range []*grapnel.Intake{&went, {}, &went} {
		packer := clear
		if n == 2 {
			packer = sealing
		}
		body, err := packer.EncodeIntake(t.Context(), in, "acme", "evt_1")
		if err != nil {
			t.Fatal(err)
		}
		came, err := packer.DecodeIntake(t.Context(), body, "acme", "evt_1")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(in, came); diff != "" {
			t.Errorf("(-went +came):\n%s", diff)
		}
		if _, err := packer.DecodeIntake(t.Context(), body, "acme", "evt_2"); err == nil {
			t.Error("it was taken for that of another event")
		}
		for i := range body {
			if _, err := packer.DecodeIntake(t.Context(), body[:i], "acme", "evt_1"); err == nil {
				t.Fatalf("%d of %d bytes were taken for all", i, len(body))
			}
			body[i] ^= 4
			if _, err := packer.DecodeIntake(t.Context(), body, "acme", "evt_1"); err == nil {
				t.Fatalf("a bit of byte %d was turned over, and nobody noticed", i)
			}
			body[i] ^= 4
		}
	}
}
