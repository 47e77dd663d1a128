package sign

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// The symmetric and the asymmetric vector are public ones of Standard Webhooks; their keys protect
// nothing.
const (
	vectorID     = "msg_p5jXN8AQM9LWM0D4loKWxJek"
	vectorUnix   = 1614265330
	vectorBody   = `{"test": 2432232314}`
	vectorSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	vectorV1     = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="

	vectorPrivate = "whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4AJ6p9lMicMFs6Kvg=="
	vectorPublic  = "whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4="
	vectorV1a     = "v1a,hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe5BdqzCInXqYXFymVJaA7AZdpXwVLPo3mNl8EM+m7TBAg=="
)

func vectorTime() time.Time { return time.Unix(vectorUnix, 0) }

func mustSecret(t testing.TB) string {
	t.Helper()
	s, err := NewSecret(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestVectors(t *testing.T) {
	for _, c := range []struct {
		name    string
		secrets []string
		want    string
	}{
		{"symmetric", []string{vectorSecret}, vectorV1},
		{"asymmetric", []string{vectorPrivate}, vectorV1a},
		{"one entry per key, in order", []string{vectorPrivate, vectorSecret}, vectorV1a + " " + vectorV1},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Sign(vectorID, vectorTime(), []byte(vectorBody), c.secrets...)
			if err != nil {
				t.Fatal(err)
			}
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestASignerCanBeUsedAgain(t *testing.T) {
	s, err := NewSigner(vectorSecret)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Sign("other", time.Unix(9, 0), bytes.Repeat([]byte("x"), 100_000)); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if got, _ := s.Sign(vectorID, vectorTime(), []byte(vectorBody)); got != vectorV1 {
			t.Fatalf("a reused signer made %s", got)
		}
	}
}

func TestSignRefusesAmbiguousContent(t *testing.T) {
	for _, id := range []string{"", "a.1", ".", strings.Repeat("x", 257)} {
		if _, err := Sign(id, vectorTime(), nil, vectorSecret); err == nil {
			t.Errorf("id %q was signed", id)
		}
	}
	if _, err := Sign("a", time.Unix(-1, 0), nil, vectorSecret); err == nil {
		t.Error("a time before 1970 was signed")
	}
}

func TestPublicKey(t *testing.T) {
	got, err := PublicKey(vectorPrivate)
	if err != nil || got != vectorPublic {
		t.Errorf("got %q, %v", got, err)
	}
	seed := PrivatePrefix + base64.StdEncoding.EncodeToString(make([]byte, ed25519.SeedSize))
	if _, err := PublicKey(seed); err != nil {
		t.Errorf("a seed alone is a private key too: %v", err)
	}
	if _, err := PublicKey(vectorSecret); err == nil {
		t.Error("a symmetric secret has no public half")
	}
}

func TestNewKeys(t *testing.T) {
	seen := map[string]bool{}
	for range 100 {
		s := mustSecret(t)
		if _, raw, err := decode(s); err != nil || len(raw) != 32 {
			t.Fatalf("a new secret has %d bytes: %v", len(raw), err)
		}
		if seen[s] {
			t.Fatal("a secret came twice")
		}
		seen[s] = true
	}
	key, err := NewPrivateKey(rand.Reader)
	if err != nil || CheckSecret(key) != nil {
		t.Fatalf("a new private key cannot sign: %v", err)
	}
	if _, err := NewSecret(strings.NewReader("short")); err == nil {
		t.Error("a secret was made without enough randomness")
	}
}

func TestSecretsThatCannotBeUsed(t *testing.T) {
	enc := func(n int) string { return base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, n)) }
	for name, text := range map[string]string{
		"empty":                "",
		"no prefix":            enc(32),
		"prefix alone":         "whsec_",
		"too short":            "whsec_" + enc(23),
		"too long":             "whsec_" + enc(65),
		"very long":            "whsec_" + enc(1<<20),
		"not base64":           "whsec_!!!!" + enc(32),
		"url alphabet":         "whsec_" + strings.Repeat("-_", 22),
		"no padding":           "whsec_" + strings.TrimRight(enc(32), "="),
		"line break":           "whsec_" + enc(24) + "\n" + enc(6),
		"spare bits":           "whsec_" + enc(32)[:42] + "d=",
		"public key":           vectorPublic,
		"private: 31 bytes":    "whsk_" + enc(31),
		"private: 33 bytes":    "whsk_" + enc(33),
		"private: two halves":  "whsk_" + enc(64),
		"upper-case prefix":    "WHSEC_" + enc(32),
		"leading space":        " whsec_" + enc(32),
		"trailing space":       "whsec_" + enc(32) + " ",
		"someone else's style": "sk_live_" + enc(32),
	} {
		err := CheckSecret(text)
		if err == nil {
			t.Errorf("%s: accepted", name)
			continue
		}
		if len(text) > 12 && strings.Contains(err.Error(), text[8:]) {
			t.Errorf("%s: the error repeats the secret", name)
		}
	}
	for _, n := range []int{24, 32, 64} {
		if err := CheckSecret("whsec_" + enc(n)); err != nil {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	if _, err := NewSigner(); err == nil {
		t.Error("a signer without secrets was made")
	}
	many := make([]string, MaxSignatures+1)
	for i := range many {
		many[i] = vectorSecret
	}
	if _, err := NewSigner(many...); err == nil {
		t.Error("more signatures than a verifier reads")
	}
}

func TestSecretsStayOutOfFormattedOutput(t *testing.T) {
	s, err := NewSigner(vectorSecret, vectorPrivate)
	if err != nil {
		t.Fatal(err)
	}
	v, err := NewVerifier(VerifierOptions{Secrets: []string{vectorSecret}})
	if err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%d", "%q"} {
		if got := fmt.Sprintf(verb+" "+verb, s, v); got != "[redacted] [redacted]" {
			t.Errorf("%s shows %s", verb, got)
		}
	}
}

func TestSignErrorsAreReturned(t *testing.T) {
	if _, err := Sign("id", vectorTime(), nil, vectorPublic); err == nil || errors.Is(err, ErrNoMatch) {
		t.Errorf("signing with a public key: %v", err)
	}
}

func BenchmarkSign1KiB(b *testing.B) {
	for name, secret := range map[string]string{"v1": vectorSecret, "v1a": vectorPrivate} {
		b.Run(name, func(b *testing.B) {
			s, err := NewSigner(secret)
			if err != nil {
				b.Fatal(err)
			}
			body, at := bytes.Repeat([]byte("x"), 1024), vectorTime()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Sign(vectorID, at, body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
