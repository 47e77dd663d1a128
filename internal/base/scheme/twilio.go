package scheme

import (
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"hash"
	"maps"
	"net/url"
	"slices"
	"strings"
)

// twilioSettings is the header that Twilio adds when the secret is a SharedKey:
// key=…,algorithm=HMAC_SHA256. It is not signed and need not be: whatever algorithm an attacker
// names, only the owner of the secret can sign.
const twilioSettings = "X-Twilio-Webhooks-Signature-Settings"

var twilioAlgorithms = map[string]string{"HMAC_SHA1": "sha1", "HMAC_SHA256": "sha256"}

// twilioHash is the algorithm that the settings name, or that of auth tokens if they name none;
// nil: not supported.
func (in *Request) twilioHash() func() hash.Hash {
	for _, settings := range in.header[twilioSettings] {
		for part := range strings.SplitSeq(settings, ",") {
			what, value, _ := strings.Cut(part, "=")
			if value = strings.TrimSpace(value); strings.TrimSpace(what) == "algorithm" && value != "" {
				return hashOf(twilioAlgorithms[strings.ToUpper(value)])
			}
		}
	}
	return hashOf(in.v.algorithm)
}

// twilio checks a signature over the URL that Twilio was given. A form's fields are signed with it,
// sorted by name; for any other body the URL has the hash.
func (in *Request) twilio() bool {
	value, wrong := single(in.header, in.v.header)
	if wrong != "" {
		return in.lacksSignature(wrong)
	}
	in.passed("header " + in.v.header + " is there")
	sum := in.twilioHash()
	if sum == nil || len(in.header[twilioSettings]) > 1 {
		return in.failed("header " + twilioSettings + " names no supported algorithm")
	}
	given, err := base64.StdEncoding.Strict().DecodeString(value)
	if err != nil || len(given) != sum().Size() {
		return in.unsigned("the signature is not base64 of the right length")
	}
	intact, fields := in.twilioBody()
	urls := in.urls()
	return in.matching("signature", func(s *secret) bool {
		found := false
		for _, address := range urls {
			mac := hmac.New(sum, s.key)
			mac.Write([]byte(address))
			mac.Write([]byte(fields))
			found = hmac.Equal(mac.Sum(nil), given) || found
		}
		return found
	}) && intact
}

// twilioBody returns the signed part of the body beside the URL. intact is false for a body without
// a signature or hash.
func (in *Request) twilioBody() (intact bool, fields string) {
	if want := in.r.URL.Query().Get("bodySHA256"); want != "" {
		sum := sha256.Sum256(in.body)
		if !equal(strings.ToLower(want), hex.EncodeToString(sum[:])) {
			return in.faulty(Mismatch, "the body's hash is not the bodySHA256 of the URL"), ""
		}
		return in.passed("the body's hash is the bodySHA256 of the URL"), ""
	}
	form := in.form()
	if len(form) == 0 && len(in.body) > 0 {
		return in.unsigned("the body is no form, and the URL has no bodySHA256"), ""
	}
	var all strings.Builder
	for _, name := range slices.Sorted(maps.Keys(form)) {
		values := slices.Clone(form[name])
		slices.Sort(values)
		for _, value := range slices.Compact(values) {
			all.WriteString(name)
			all.WriteString(value)
		}
	}
	return true, all.String()
}

// urls are the addresses to which a request may have been sent: the source's public one or, if none
// is set, the path below the server's; and the request's own. Behind a proxy the request's scheme
// may be wrong, and providers differ in whether they name the port, so there are several. Trying
// them is safe: only the owner of the secret can sign any of them, and each has the whole query,
// which may hold the hash of the body.
func (in *Request) urls() []string {
	path := in.r.URL.RequestURI()
	bases := []string{"https://" + in.r.Host + path, "http://" + in.r.Host + path}
	if in.origin != "" && !slices.Contains(bases, in.origin+path) {
		bases = append(bases, in.origin+path)
	}
	if public := in.v.PublicURL; public != "" {
		// It may be the whole address, to whose query the provider adds, or that of a proxy in
		// front of everything.
		bases = []string{public, strings.TrimSuffix(public, "/") + path}
		if in.r.URL.RawQuery != "" {
			address, _, _ := strings.Cut(public, "?")
			bases[0] = address + "?" + in.r.URL.RawQuery
		}
	}
	var all []string
	for _, base := range bases {
		all = append(all, base)
		if other := otherPort(base); other != "" {
			all = append(all, other)
		}
	}
	return all
}

// otherPort adds the standard port to an address without one, and removes it from an address that
// has it.
func otherPort(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return ""
	}
	standard := map[string]string{"https": "443", "http": "80"}[u.Scheme]
	scheme, rest, _ := strings.Cut(address, "://")
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	if u.Port() == "" {
		return scheme + "://" + rest[:end] + ":" + standard + rest[end:]
	}
	return scheme + "://" + strings.TrimSuffix(rest[:end], ":"+u.Port()) + rest[end:]
}

// hashes are the algorithms by their names.
func hashOf(name string) func() hash.Hash {
	switch name {
	case "sha1":
		return sha1.New
	case "sha256":
		return sha256.New
	case "sha512":
		return sha512.New
	}
	return nil
}

// equal compares in a time that does not depend on the texts, not even on their lengths.
func equal(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}
