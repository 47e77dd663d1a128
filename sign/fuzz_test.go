package sign

import (
	"strconv"
	"strings"
	"testing"
)

// FuzzSignatureHeader: a header is accepted only if it contains the right signature as an entry.
func FuzzSignatureHeader(f *testing.F) {
	for _, s := range []string{vectorV1, vectorV1a, "v1,", "v1 ,x", vectorV1 + " " + vectorV1a, strings.Repeat("v1,A ", 11), "\x00", "v1,=",
		" "} {
		f.Add(s, strconv.Itoa(vectorUnix))
	}
	f.Add(vectorV1, "+1614265330")
	f.Fuzz(func(t *testing.T, signature, timestamp string) {
		v := verifier(t, vectorTime(), vectorSecret, vectorPublic)
		_, err := v.Verify(headers(vectorID, timestamp, signature), []byte(vectorBody))
		holds := false
		for entry := range strings.SplitSeq(signature, " ") {
			holds = holds || entry == vectorV1 || entry == vectorV1a
		}
		if err == nil && (!holds || timestamp != strconv.Itoa(vectorUnix)) {
			t.Fatalf("accepted %q at %q", signature, timestamp)
		}
	})
}

// FuzzSecret: an accepted text has only one spelling, and errors never repeat the text.
func FuzzSecret(f *testing.F) {
	for _, s := range []string{vectorSecret, vectorPrivate, vectorPublic, "whsec_", "whsk_AAAA", "whpk_=",
		"whsec_" + strings.Repeat("A", 40)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		_, raw, err := decode(text)
		if err != nil {
			if _, encoded, _ := strings.Cut(text, "_"); len(encoded) > 16 && strings.Contains(err.Error(), encoded) {
				t.Fatalf("the error repeats %q", text)
			}
			return
		}
		if len(raw) < minSecret || len(raw) > maxSecret {
			t.Fatalf("%q has %d bytes", text, len(raw))
		}
		if strings.ContainsAny(text, "\r\n \t") {
			t.Fatalf("%q has white space", text)
		}
	})
}
