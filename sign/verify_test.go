package sign

import (
	"encoding/base64"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/grapnelhq/grapnel/internal/base/rapidtest"
)

func headers(id, timestamp, signature string) http.Header {
	return http.Header{HeaderID: {id}, HeaderTimestamp: {timestamp}, HeaderSignature: {signature}}
}

func verifier(t testing.TB, now time.Time, secrets ...string) *Verifier {
	t.Helper()
	v, err := NewVerifier(VerifierOptions{Secrets: secrets, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestVerifyVectors(t *testing.T) {
	v := verifier(t, vectorTime(), vectorPublic, vectorSecret)
	for signature, secret := range map[string]int{vectorV1: 1, vectorV1a: 0, vectorV1 + " " + vectorV1a: 0} {
		got, err := v.Verify(headers(vectorID, strconv.Itoa(vectorUnix), signature), []byte(vectorBody))
		if err != nil {
			t.Errorf("%s: %v", signature, err)
			continue
		}
		if got.ID != vectorID || !got.Timestamp.Equal(vectorTime()) || got.Secret != secret {
			t.Errorf("%s: %+v", signature, got)
		}
	}
}

func TestToleranceBoundaries(t *testing.T) {
	for _, c := range []struct {
		skew time.Duration // of the receiver's clock against the signature's second
		want error
	}{
		{0, nil},
		{299 * time.Second, nil}, {300 * time.Second, nil}, {301 * time.Second, ErrTooOld}, {300*time.Second + 1, ErrTooOld},
		{-299 * time.Second, nil}, {-300 * time.Second, nil}, {-301 * time.Second, ErrTooNew}, {-300*time.Second - 1, ErrTooNew},
		{100 * 365 * 24 * time.Hour, ErrTooOld},
	} {
		v := verifier(t, vectorTime().Add(c.skew), vectorSecret)
		_, err := v.Verify(headers(vectorID, strconv.Itoa(vectorUnix), vectorV1), []byte(vectorBody))
		if !errors.Is(err, c.want) {
			t.Errorf("%v: got %v, want %v", c.skew, err, c.want)
		}
	}
	v, err := NewVerifier(VerifierOptions{Secrets: []string{vectorSecret}, Tolerance: time.Second,
		Now: func() time.Time { return vectorTime().Add(2 * time.Second) }})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.Verify(headers(vectorID, strconv.Itoa(vectorUnix), vectorV1), []byte(vectorBody)); !errors.Is(err, ErrTooOld) {
		t.Errorf("a tolerance of one second: %v", err)
	}
}

func TestTimestampsHaveOneSpelling(t *testing.T) {
	v := verifier(t, time.Unix(5, 0), vectorSecret)
	for _, text := range []string{"+5", "-5", "05", " 5", "5 ", "5.0", "5e0", "0x5", "٥", "5\x00", "00", "-0", "9999999999999", ""} {
		if _, err := v.Verify(headers("a", text, vectorV1), nil); !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrMissing) {
			t.Errorf("%q: %v", text, err)
		}
	}
	signature, err := Sign("a", time.Unix(0, 0), nil, vectorSecret)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.Verify(headers("a", "0", signature), nil); err != nil {
		t.Errorf("the second 0 is a second: %v", err)
	}
}

// The corpus targets verifiers that compared only the bytes present in the request, so that an
// empty signature passed.
func TestForgedSignatures(t *testing.T) {
	raw := strings.TrimPrefix(vectorV1, "v1,")
	decoded, err := base64.StdEncoding.DecodeString(raw)
	if err != nil {
		t.Fatal(err)
	}
	short := func(n int) string { return "v1," + base64.StdEncoding.EncodeToString(decoded[:n]) }
	for name, signature := range map[string]string{
		"version alone":          "v1",
		"empty v1":               "v1,",
		"empty v1a":              "v1a,",
		"padding only":           "v1,====",
		"first byte":             short(1),
		"half":                   short(16),
		"all but one byte":       short(31),
		"one byte more":          "v1," + base64.StdEncoding.EncodeToString(append(decoded[:32:32], 0)),
		"twice":                  "v1," + base64.StdEncoding.EncodeToString(append(decoded[:32:32], decoded...)),
		"zeroes":                 "v1," + base64.StdEncoding.EncodeToString(make([]byte, 32)),
		"cut text":               vectorV1[:len(vectorV1)-1],
		"no padding":             strings.TrimRight(vectorV1, "="),
		"no version":             raw,
		"another version":        "v2," + raw,
		"v0":                     "v0," + raw,
		"upper case":             "V1," + raw,
		"symmetric bytes as v1a": "v1a," + raw,
		"comma in front":         "," + vectorV1,
		"space inside":           "v1, " + raw,
		"hex":                    "v1,8348",
		"comma separated":        "v1,AAAA," + raw,
		"several empty ones":     "v1, v1, v1a, v1,",
		"tab separated":          "v1,AAAA\t" + vectorV1,
	} {
		t.Run(name, func(t *testing.T) {
			v := verifier(t, vectorTime(), vectorSecret, vectorPublic)
			_, err := v.Verify(headers(vectorID, strconv.Itoa(vectorUnix), signature), []byte(vectorBody))
			if !errors.Is(err, ErrNoMatch) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestExtraSignatures(t *testing.T) {
	v := verifier(t, vectorTime(), vectorSecret)
	check := func(signature string) error {
		_, err := v.Verify(headers(vectorID, strconv.Itoa(vectorUnix), signature), []byte(vectorBody))
		return err
	}
	if err := check("v9,future v1, v1,AAAA  " + vectorV1 + " v1a,x"); err != nil {
		t.Errorf("the valid one among others: %v", err)
	}
	if err := check(strings.Repeat("v1,x ", MaxSignatures-1) + vectorV1); err != nil {
		t.Errorf("the tenth: %v", err)
	}
	if err := check(strings.Repeat("v1,x ", MaxSignatures) + vectorV1); !errors.Is(err, ErrMalformed) {
		t.Errorf("the eleventh: %v", err)
	}
	if err := check(vectorV1 + " v9," + strings.Repeat("x", maxSignatureHeader)); !errors.Is(err, ErrMalformed) {
		t.Errorf("more than 4 KiB: %v", err)
	}
}

func TestHeadersMustBeThereOnce(t *testing.T) {
	v := verifier(t, vectorTime(), vectorSecret)
	good := func() http.Header { return headers(vectorID, strconv.Itoa(vectorUnix), vectorV1) }
	for _, name := range []string{HeaderID, HeaderTimestamp, HeaderSignature} {
		h := good()
		h.Del(name)
		if _, err := v.Verify(h, []byte(vectorBody)); !errors.Is(err, ErrMissing) {
			t.Errorf("no %s: %v", name, err)
		}
		h = good()
		h.Add(name, h.Get(name))
		if _, err := v.Verify(h, []byte(vectorBody)); !errors.Is(err, ErrMalformed) {
			t.Errorf("two %s: %v", name, err)
		}
	}
	h := good()
	h.Set(HeaderID, "a.b")
	if _, err := v.Verify(h, []byte(vectorBody)); !errors.Is(err, ErrMalformed) {
		t.Errorf("an id with a dot: %v", err)
	}
}

// TestRotation signs with the new and the old secret, as during an overlap: receivers with either
// keep verifying.
func TestRotation(t *testing.T) {
	fresh, old, other := mustSecret(t), mustSecret(t), mustSecret(t)
	overlap, err := Sign(vectorID, vectorTime(), []byte(vectorBody), fresh, old)
	if err != nil {
		t.Fatal(err)
	}
	after, err := Sign(vectorID, vectorTime(), []byte(vectorBody), fresh)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, signature string
		accepts         []string
		secret          int
		want            error
	}{
		{"old receiver during the overlap", overlap, []string{old}, 0, nil},
		{"new receiver during the overlap", overlap, []string{fresh}, 0, nil},
		{"receiver with both says which", after, []string{old, fresh}, 1, nil},
		{"old receiver after the overlap", after, []string{old}, 0, ErrNoMatch},
		{"stranger", overlap, []string{other}, 0, ErrNoMatch},
	} {
		got, err := verifier(t, vectorTime(), c.accepts...).Verify(headers(vectorID, strconv.Itoa(vectorUnix), c.signature), []byte(vectorBody))
		if !errors.Is(err, c.want) || got.Secret != c.secret {
			t.Errorf("%s: %+v, %v", c.name, got, err)
		}
	}
}

func TestVerifierOptionsThatCannotBeUsed(t *testing.T) {
	for name, o := range map[string]VerifierOptions{
		"no secret":          {},
		"a private key":      {Secrets: []string{vectorPrivate}},
		"a bad secret":       {Secrets: []string{vectorSecret, "whsec_x"}},
		"negative tolerance": {Secrets: []string{vectorSecret}, Tolerance: -1},
		"too many":           {Secrets: make([]string, MaxSignatures+1)},
	} {
		if _, err := NewVerifier(o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// TestAnySingleByteMatters signs random content and changes one byte anywhere in the request.
func TestAnySingleByteMatters(t *testing.T) {
	fresh := mustSecret(t)
	rapidtest.Check(t, func(t *rapid.T) {
		id := rapid.StringMatching(`[A-Za-z0-9_-]{1,64}`).Draw(t, "id")
		unix := rapid.Int64Range(0, 99_999_999_999).Draw(t, "unix")
		body := rapid.SliceOfN(rapid.Byte(), 0, 64).Draw(t, "body")
		secrets, accepts := []string{fresh}, fresh
		if rapid.Bool().Draw(t, "asymmetric") {
			secrets, accepts = []string{vectorPrivate}, vectorPublic
		}
		signature, err := Sign(id, time.Unix(unix, 0), body, secrets...)
		if err != nil {
			t.Fatal(err)
		}
		// The tolerance is unlimited here: a changed timestamp must be noticed by the signature,
		// not by the clock.
		v, err := NewVerifier(
			VerifierOptions{Secrets: []string{accepts}, Tolerance: 1 << 62, Now: func() time.Time { return time.Unix(unix, 0) }},
		)
		if err != nil {
			t.Fatal(err)
		}
		parts := [][]byte{[]byte(id), []byte(strconv.FormatInt(unix, 10)), []byte(signature), body}
		if _, err := v.Verify(headers(string(parts[0]), string(parts[1]), string(parts[2])), parts[3]); err != nil {
			t.Fatalf("untouched: %v", err)
		}
		which := rapid.IntRange(0, 3).Filter(func(i int) bool { return len(parts[i]) > 0 }).Draw(t, "part")
		at := rapid.IntRange(0, len(parts[which])-1).Draw(t, "at")
		parts[which][at] ^= rapid.ByteRange(1, 255).Draw(t, "change")
		if _, err := v.Verify(headers(string(parts[0]), string(parts[1]), string(parts[2])), parts[3]); err == nil {
			t.Fatalf("a changed byte %d of part %d was accepted", at, which)
		}
	})
}
