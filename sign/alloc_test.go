//go:build !race

package sign

import "testing"

// The race detector makes pools drop entries on purpose, so this runs without it.
func TestSigningAllocatesItsResultOnly(t *testing.T) {
	s, err := NewSigner(vectorSecret, vectorSecret)
	if err != nil {
		t.Fatal(err)
	}
	body := []byte(vectorBody)
	allocs := testing.AllocsPerRun(500, func() {
		if _, err := s.Sign(vectorID, vectorTime(), body); err != nil {
			t.Error(err)
		}
	})
	if allocs > 1 {
		t.Errorf("signing allocates %v times", allocs)
	}
}
