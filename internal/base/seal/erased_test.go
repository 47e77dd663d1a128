package seal

import (
	"errors"
	"testing"
)

// TestWithoutItsDataKeyBytesAreErased: also once the tenant has another data key. Damaged bytes are
// told apart from erased ones as long as the key is there.
func TestWithoutItsDataKeyBytesAreErased(t *testing.T) {
	of := &table{keys: map[string]DataKey{}}
	from, _ := keyFile(t, one)
	at := At{"acme", "payload", "evt_1"}
	sealed, err := sealer(t, from, of).Seal(t.Context(), at, []byte("data"))
	if err != nil {
		t.Fatal(err)
	}
	sealed[len(sealed)-1] ^= 1
	if _, err := sealer(t, from, of).Open(t.Context(), at, sealed); err == nil || errors.Is(err, ErrNoKey) {
		t.Errorf("damaged bytes: %v", err)
	}
	sealed[len(sealed)-1] ^= 1
	delete(of.keys, "acme")
	s := sealer(t, from, of)
	if _, err := s.Open(t.Context(), at, sealed); !errors.Is(err, ErrNoKey) {
		t.Errorf("without a key: %v", err)
	}
	if _, err := s.Seal(t.Context(), at, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Open(t.Context(), at, sealed); !errors.Is(err, ErrNoKey) {
		t.Errorf("with another key: %v", err)
	}
}

// TestAForgottenKeyIsMadeAnew: bytes sealed after the row of a data key was deleted can be opened
// without the memory of this process.
func TestAForgottenKeyIsMadeAnew(t *testing.T) {
	of := &table{keys: map[string]DataKey{}}
	from, _ := keyFile(t, one)
	at := At{"acme", "payload", "evt_1"}
	s := sealer(t, from, of)
	if _, err := s.Seal(t.Context(), at, []byte("before")); err != nil {
		t.Fatal(err)
	}
	delete(of.keys, "acme")
	s.Forget("acme")
	sealed, err := s.Seal(t.Context(), at, []byte("after"))
	if err != nil {
		t.Fatal(err)
	}
	if plain, err := sealer(t, from, of).Open(t.Context(), at, sealed); string(plain) != "after" || err != nil {
		t.Errorf("opened %q, %v", plain, err)
	}
}

func BenchmarkSeal(b *testing.B) {
	of := &table{keys: map[string]DataKey{}}
	b.Setenv("GRAPNEL_TEST_MASTER", one)
	from, _ := ParseSource("env:GRAPNEL_TEST_MASTER")
	s, err := New(b.Context(), from, nil, of, false)
	if err != nil {
		b.Fatal(err)
	}
	at := At{"acme", "event data", "evt_01J000000000000000000000"}
	plain := make([]byte, 1024)
	sealed, _ := s.Seal(b.Context(), at, plain)
	b.Run("seal", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = s.Seal(b.Context(), at, plain)
		}
	})
	b.Run("open", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = s.Open(b.Context(), at, sealed)
		}
	})
}
