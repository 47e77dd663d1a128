package ingress

import (
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // what Twilio signs with
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/url"
	"slices"
	"strings"
)

// twilio checks a signature over the URL that Twilio was given. A form's fields are signed with it, sorted by name; of any other body the
// URL has the hash.
func (in *incoming) twilio() bool {
	value, wrong := single(in.header, in.source.header)
	if wrong != "" {
		return in.failed(wrong)
	}
	in.passed("header " + in.source.header + " is there")
	given, err := base64.StdEncoding.Strict().DecodeString(value)
	if err != nil || len(given) != sha1.Size {
		return in.failed("the signature is not base64 of the right length")
	}
	intact, fields := in.twilioBody()
	urls := in.urls()
	return in.matching("signature", func(s *secret) bool {
		found := false
		for _, address := range urls {
			mac := hmac.New(sha1.New, []byte(s.Text))
			mac.Write([]byte(address))
			mac.Write([]byte(fields))
			found = hmac.Equal(mac.Sum(nil), given) || found
		}
		return found
	}) && intact
}

// twilioBody is what of the body is signed beside the URL. intact is false for a body that nothing vouches for.
func (in *incoming) twilioBody() (intact bool, fields string) {
	if want := in.r.URL.Query().Get("bodySHA256"); want != "" {
		sum := sha256.Sum256(in.body)
		if !equal(strings.ToLower(want), hex.EncodeToString(sum[:])) {
			return in.failed("the body's hash is not the bodySHA256 of the URL"), ""
		}
		return in.passed("the body's hash is the bodySHA256 of the URL"), ""
	}
	form := in.form()
	if len(form) == 0 && len(in.body) > 0 {
		return in.failed("the body is no form, and the URL has no bodySHA256"), ""
	}
	var all strings.Builder
	for _, name := range sortedKeys(form) {
		values := slices.Clone(form[name])
		slices.Sort(values)
		for _, value := range slices.Compact(values) {
			all.WriteString(name)
			all.WriteString(value)
		}
	}
	return true, all.String()
}

func sortedKeys(form url.Values) []string {
	names := make([]string, 0, len(form))
	for name := range form {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// urls are the addresses that a request may have been sent to: the source's public one or, where none is set, what the request says of
// itself. Behind a proxy that may be wrong in its scheme, and providers differ in whether they name the port, so there are several. Trying
// them is safe: whatever an address is, only who has the secret can sign it.
func (in *incoming) urls() []string {
	path := in.r.URL.RequestURI()
	bases := []string{"https://" + in.r.Host + path, "http://" + in.r.Host + path}
	if public := in.source.PublicURL; public != "" {
		query := ""
		if in.r.URL.RawQuery != "" && !strings.Contains(public, "?") {
			query = "?" + in.r.URL.RawQuery
		}
		// It may be the whole address, or that of a proxy in front of everything.
		bases = []string{public + query, strings.TrimSuffix(public, "/") + path}
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

// otherPort names the standard port of an address that does not, and leaves it out of one that does.
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
	switch u.Port() {
	case "":
		return scheme + "://" + rest[:end] + ":" + standard + rest[end:]
	default:
		return scheme + "://" + strings.TrimSuffix(rest[:end], ":"+u.Port()) + rest[end:]
	}
}
