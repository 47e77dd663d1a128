package grapnel_test

import (
	"fmt"
	"math/bits"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/rapidtest"
)

// idsOf are ids with a different key for each letter.
func idsOf(key string) *grapnel.IDs { return grapnel.NewIDs(grapnel.IDKey(strings.Repeat(key, 16))) }

func TestDeliveryIDsAreRead(t *testing.T) {
	ids := idsOf("k")
	rapidtest.Check(t, func(t *rapid.T) {
		at := time.UnixMilli(rapid.Int64Range(0, 1<<47).Draw(t, "ms"))
		seq := rapid.Int64Range(1, 1<<62).Draw(t, "seq")
		id := ids.Delivery(at, seq)
		got, err := ids.Read(id)
		if err != nil || got != (grapnel.Reading{Seq: seq, Millis: at.UnixMilli()}) || !grapnel.ValidID(id) {
			t.Fatalf("%s is read as %+v: %v", id, got, err)
		}
		if later := ids.Delivery(at.Add(time.Millisecond), seq); later <= id {
			t.Fatalf("%s does not sort after %s", later, id)
		}
		attempt := ids.Attempt(at, seq, 3)
		if attempt[4:24] != id[4:24] || attempt == ids.Attempt(at, seq, 4) {
			t.Fatalf("%s does not belong to %s", attempt, id)
		}
		// Another store reads another row id, so the delivery's millisecond must be compared.
		if other, err := idsOf("o").Read(id); err == nil && other.Seq == seq {
			t.Fatalf("another store reads %s as well", id)
		}
	})
}

// TestIDsTellNoSequence: a tenant has two deliveries, created in one millisecond or not, and other
// tenants have n deliveries between them. Its ids look the same whether n is small or large.
func TestIDsTellNoSequence(t *testing.T) {
	ids := idsOf("k")
	// number is the part of an id that contains the row id.
	number := func(at time.Time, seq int64) uint64 {
		read, _, err := plainly(ids.Delivery(at, seq))
		if err != nil {
			t.Fatal(err)
		}
		return uint64(read)
	}
	at := time.UnixMilli(1_767_603_600_000)
	for _, between := range []int64{1, 2, 1000, 1 << 20, 1 << 40} {
		const pairs = 1000
		var up, odd, flips int
		same := map[uint64]int{}
		var each [64]int
		for i := range int64(pairs) {
			later := at.Add(time.Duration(i%2) * time.Hour)
			a, b := number(at, 1+i*7), number(later, 1+i*7+between)
			if b > a {
				up++
			}
			odd += int((b - a) & 1)
			same[b-a]++
			flips += bits.OnesCount64(a ^ b)
			for n := range each {
				each[n] += int((a ^ b) >> n & 1)
			}
		}
		// Of 1000 fair coins, fewer than 400 or more than 600 on one side happen once in 10^10 times.
		fair := func(what string, n int) {
			if n < 400 || n > 600 {
				t.Errorf("%d between: %s in %d of %d pairs", between, what, n, pairs)
			}
		}
		fair("the later id has the higher number", up)
		fair("the difference is odd", odd)
		for n, flipped := range each {
			fair(fmt.Sprintf("bit %d differs", n), flipped)
		}
		for difference, n := range same {
			if n > 1 {
				t.Errorf("%d between: %d pairs differ by %#x", between, n, difference)
			}
		}
		if mean := float64(flips) / pairs; mean < 31 || mean > 33 {
			t.Errorf("%d between: %.1f bits differ", between, mean)
		}
	}
	// The seeds of jitter reveal nothing either.
	var up int
	for i := range int64(1000) {
		if ids.Seed(i+2) > ids.Seed(i+1) {
			up++
		}
	}
	if up < 400 || up > 600 {
		t.Errorf("%d seeds of 1000 are higher than the one before", up)
	}
}

// plainly reads the bits of an id as if they were not encrypted.
func plainly(id string) (number, millis int64, err error) {
	const alphabet = "0123456789abcdefghjkmnpqrstvwxyz"
	var hi, lo uint64
	for _, c := range id[len("dlv_"):] {
		v := strings.IndexRune(alphabet, c)
		if v < 0 {
			return 0, 0, fmt.Errorf("%q", c)
		}
		hi, lo = hi<<5|lo>>59, lo<<5|uint64(v)
	}
	return int64(hi<<48 | lo>>16), int64(hi >> 16), nil
}

// TestPlainIDsStayInside: the id with the row id in clear, which stored texts have, is no id for
// callers, and becomes the one that they see.
func TestPlainIDsStayInside(t *testing.T) {
	ids := idsOf("k")
	rapidtest.Check(t, func(t *rapid.T) {
		at := time.UnixMilli(rapid.Int64Range(0, 1<<47).Draw(t, "ms"))
		seq := rapid.Int64Range(1, 1<<62).Draw(t, "seq")
		plain, sealed := grapnel.PlainDeliveryID(at, seq), ids.Delivery(at, seq)
		if got, err := ids.Read(plain); err == nil {
			t.Fatalf("%s is read as %+v", plain, got)
		}
		if got := ids.FromPlain(plain); got != sealed {
			t.Fatalf("%s becomes %s, want %s", plain, got, sealed)
		}
		if got := ids.FromPlain(sealed); got != sealed {
			t.Fatalf("%s becomes %s", sealed, got)
		}
		if got, err := ids.Read(sealed); err != nil || got.Plain() != plain {
			t.Fatalf("%s is read as %+v, %v", sealed, got, err)
		}
	})
}

func TestWhatIsNoDeliveryID(t *testing.T) {
	ids := idsOf("k")
	at := time.UnixMilli(1)
	for _, id := range []string{ids.Delivery(at, 1), grapnel.PlainDeliveryID(at, 1)} {
		for _, bad := range []string{"", "dlv_", "dlv", id[:29], id + "0", "evt" + id[3:], strings.ToUpper(id), id[:20] + "u" + id[21:],
			"dlv_80000000000000000000000000", ids.Attempt(at, 1, 1), "dlv_" + strings.Repeat("0", 26),
			"dlv" + ids.Attempt(at, 1, 1)[3:], grapnel.PlainDeliveryID(at, 2)} {
			if got, err := ids.Read(bad); err == nil {
				t.Errorf("%q is taken for number %d", bad, got.Seq)
			}
		}
	}
}

func FuzzDeliveryID(f *testing.F) {
	ids := idsOf("k")
	f.Add(ids.Delivery(time.UnixMilli(1_767_603_600_000), 42))
	f.Add(grapnel.PlainDeliveryID(time.UnixMilli(1_767_603_600_000), 42))
	f.Add("dlv_" + strings.Repeat("z", 26))
	f.Fuzz(func(t *testing.T, id string) {
		got, err := ids.Read(id)
		if at := time.UnixMilli(got.Millis); err == nil && ids.Delivery(at, got.Seq) != id {
			t.Errorf("%q is not the only spelling of %d", id, got.Seq)
		}
	})
}

// TestIDKeysAreNotShown: a key that is logged or printed by mistake shows no secret.
func TestIDKeysAreNotShown(t *testing.T) {
	secret := []byte("a secret of sixty-four")
	key := grapnel.IDKey(secret)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%d"} {
		for _, shown := range []any{key, &key, []grapnel.IDKey{key}} {
			text := fmt.Sprintf(verb, shown)
			if strings.Contains(text, string(secret)) || strings.Contains(text, "97 32 115") || strings.Contains(text, "0x61, 0x20") {
				t.Errorf("%s shows %s", verb, text)
			}
		}
	}
}

func BenchmarkDeliveryID(b *testing.B) {
	ids, at := idsOf("k"), time.UnixMilli(1_767_603_600_000)
	b.Run("make", func(b *testing.B) {
		b.ReportAllocs()
		for i := range b.N {
			ids.Delivery(at, int64(i)+1)
		}
	})
	b.Run("plain", func(b *testing.B) {
		b.ReportAllocs()
		for i := range b.N {
			grapnel.PlainDeliveryID(at, int64(i)+1)
		}
	})
	id := ids.Delivery(at, 42)
	b.Run("read", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			if _, err := ids.Read(id); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("seed", func(b *testing.B) {
		b.ReportAllocs()
		for i := range b.N {
			ids.Seed(int64(i))
		}
	})
}
