package byhand

import (
	"encoding/base64"
	"encoding/hex"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel/internal/scheme"
)

// Reason is why a request does not verify. With all reasons removed it does.
type Reason struct {
	Kind   string `json:"kind"` // one of Kinds
	Detail string `json:"detail"`
	Fix    string `json:"fix"`
}

// Kinds of reasons, in the order in which they are looked for.
var Kinds = []string{"header", "encoding", "key", "body", "content", "clock"}

// Report is what a look at a request came to.
type Report struct {
	Verified bool           `json:"verified"`
	Checks   []scheme.Check `json:"checks"`
	Reasons  []Reason       `json:"reasons"`
}

// attempt is a request with some of its presumed faults undone.
type attempt struct {
	verify  scheme.Settings
	request scheme.Webhook
	undone  []Reason
}

// with is an attempt with another reason.
func (a attempt) with(kind, detail, fix string) attempt {
	a.undone = append(slices.Clone(a.undone), Reason{kind, detail, fix})
	a.request.Header = a.request.Header.Clone()
	a.verify.Secrets = slices.Clone(a.verify.Secrets)
	return a
}

// pairsUpTo is the largest body for which two faults at once are looked for: that is a few thousand
// signatures over it.
const pairsUpTo = 256 << 10

// Explain verifies a request as of a time. If it does not verify, Explain undoes the usual changes,
// one at a time and then two, until it does: those are the reasons.
func Explain(v *scheme.Settings, r *scheme.Webhook, now time.Time) (*Report, error) {
	checks, ok, err := v.Check(r, now)
	if err != nil || ok {
		return &Report{Verified: ok, Checks: checks, Reasons: []Reason{}}, err
	}
	report := &Report{Checks: checks}
	start := attempt{verify: *v, request: *r}
	if found := search(start, len(r.Body) <= pairsUpTo); found != nil {
		report.Reasons = append(found.undone, found.clock(now)...)
		return report, nil
	}
	report.Reasons = append([]Reason{unknown(checks)}, start.clock(now)...)
	return report, nil
}

// unknown is the reason when nothing helped. If the request has all that is needed, most likely the
// key is another one.
func unknown(checks []scheme.Check) Reason {
	for _, c := range checks {
		if !c.Passed && !strings.Contains(c.Text, "matches") && !strings.HasPrefix(c.Text, "timestamp") {
			return Reason{"header", c.Text, "compare the request with what the provider sends; a proxy, or the code that stored it, has lost that part"}
		}
	}
	return Reason{"key", "no signature matches, whatever is undone of the usual changes",
		"most likely the secret is another one: that of another endpoint, or of test instead of live mode. " +
			"Else the body was changed in a way that cannot be undone: parsed and written in another order, or cut off"}
}

// clock is the reason if the timestamp is too far from now.
func (a *attempt) clock(now time.Time) []Reason {
	proof, err := a.verify.Evidence(&a.request)
	if err != nil || proof.At.IsZero() {
		return nil
	}
	checks, _, _ := a.verify.Check(&a.request, now) // ProofOf has read the same settings
	for _, c := range checks {
		if !c.Passed && strings.HasPrefix(c.Text, "timestamp ") {
			return []Reason{{"clock", c.Text, "for a request of now set the clocks (chronyc tracking, timedatectl); a stored one is verified as of its time, with --at " +
				proof.At.UTC().Format(time.RFC3339)}}
		}
	}
	return nil
}

// verified says whether an attempt verifies as of its own time.
func (a *attempt) verified() bool {
	proof, err := a.verify.Evidence(&a.request)
	if err != nil {
		return false
	}
	_, ok, err := a.verify.Check(&a.request, proof.At)
	return err == nil && ok
}

// undoings are the faults that can be undone, by kinds. An undoing returns an attempt for each form
// of the fault.
var undoings = []func(attempt) []attempt{headers, encodings, keys, bodies, contents}

func search(a attempt, pairs bool) *attempt {
	if a.verified() {
		return &a // it is the clock alone
	}
	type reached struct {
		attempt
		next int
	}
	var first []reached
	for i, undo := range undoings {
		for _, one := range undo(a) {
			if one.verified() {
				return &one
			}
			first = append(first, reached{one, i + 1})
		}
	}
	for _, one := range first {
		for _, undo := range undoings[one.next:] {
			if !pairs {
				break
			}
			for _, two := range undo(one.attempt) {
				if two.verified() {
					return &two
				}
			}
		}
	}
	return nil
}

// headers undoes other names of headers, and values that came twice.
func headers(a attempt) (all []attempt) {
	proof, err := a.verify.Evidence(&a.request)
	if err != nil {
		return nil
	}
	renamed, doubled := map[string]string{}, []string{}
	for _, needed := range proof.Headers {
		if values := a.request.Header[needed]; len(values) > 1 {
			doubled = append(doubled, needed)
		} else if len(values) == 1 {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(a.request.Header)) {
			if bare(name) == bare(needed) && name != needed {
				renamed[needed] = name
			}
		}
	}
	if len(renamed) > 0 {
		var said []string
		for _, needed := range slices.Sorted(maps.Keys(renamed)) {
			said = append(said, renamed[needed]+" is "+needed)
		}
		one := a.with("header", "headers have other names: "+strings.Join(said, ", "),
			"let the proxy or gateway pass headers with their names, or read them by the names that it gives")
		for needed, name := range renamed {
			one.request.Header[needed] = one.request.Header[name]
			delete(one.request.Header, name)
		}
		all = append(all, one)
	}
	if len(doubled) > 0 {
		one := a.with("header", "there more than once: "+strings.Join(doubled, ", "), "find the proxy that adds a header")
		for _, name := range doubled {
			one.request.Header[name] = one.request.Header[name][:1]
		}
		all = append(all, one)
	}
	return all
}

// bare is what proxies, CGI and renamings leave of the name of a header.
func bare(name string) string {
	name = strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(name))
	for _, added := range []string{"http", "xforwarded", "xoriginal", "x"} {
		name = strings.TrimPrefix(name, added)
	}
	for _, family := range []string{"svix", "webhook"} { // the two names of Standard Webhooks
		if part, is := strings.CutPrefix(name, family); is && slices.Contains([]string{"id", "timestamp", "signature"}, part) {
			return "webhook" + part
		}
	}
	return name
}

// token is a signature within a header's value.
var token = regexp.MustCompile(`[0-9A-Za-z+/_-]{26,}={0,2}`)

// encodings undoes other forms of the signature's bytes, and what surrounds them.
func encodings(a attempt) (all []attempt) {
	proof, err := a.verify.Evidence(&a.request)
	if err != nil || len(proof.Headers) == 0 {
		return nil
	}
	name := proof.Headers[0]
	value := a.request.Header.Get(name)
	each := func(detail, fix string, change func(string) string) {
		if changed := change(value); changed != value {
			one := a.with("encoding", detail, fix)
			one.request.Header.Set(name, changed)
			all = append(all, one)
		}
	}
	each(name+" has no "+proof.Prefix+" before the signature", "send the prefix, or set the scheme's prefix to none", func(s string) string {
		return proof.Prefix + strings.TrimPrefix(s, proof.Prefix)
	})
	each(name+" has spaces or quotes around the signature", "pass the header as it comes", func(s string) string { return strings.Trim(s, " \t\"'") })
	each(name+" is percent-encoded", "do not encode the header", func(s string) string {
		if plain, err := url.PathUnescape(s); err == nil {
			return plain
		}
		return s
	})
	each("the signature is in hex, and base64 is expected", "encode the MAC's bytes in base64, not their hex digits", func(s string) string {
		return token.ReplaceAllStringFunc(s, func(found string) string {
			if raw, err := hex.DecodeString(found); err == nil {
				return base64.StdEncoding.EncodeToString(raw)
			}
			return found
		})
	})
	each("the signature is in base64, and hex is expected", "encode the MAC's bytes in hex", func(s string) string {
		return token.ReplaceAllStringFunc(s, func(found string) string { return reencoded(found, hex.EncodeToString) })
	})
	each("the signature is in base64 of another alphabet (- and _) or without =", "use standard base64 with padding", func(s string) string {
		return token.ReplaceAllStringFunc(s, func(found string) string { return reencoded(found, base64.StdEncoding.EncodeToString) })
	})
	return all
}

// reencoded is base64 of any kind in another encoding.
func reencoded(text string, as func([]byte) string) string {
	if raw := unbase64(text); raw != nil {
		return as(raw)
	}
	return text
}

// unbase64 reads base64 of either alphabet, with padding or not; nil: it is none.
func unbase64(text string) []byte {
	usual := strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(text, "="))
	raw, err := base64.RawStdEncoding.DecodeString(usual)
	if err != nil {
		return nil
	}
	return raw
}

// keys undoes other readings of a secret.
func keys(a attempt) (all []attempt) {
	standard := slices.Contains([]string{"standard", "svix"}, a.verify.Scheme)
	each := func(detail, fix string, change func(string) []byte) {
		one := a.with("key", detail, fix)
		changed := false
		for i, s := range a.verify.Secrets {
			key := change(s.Text)
			if len(key) < scheme.MinSecret {
				continue
			}
			text := string(key)
			if standard {
				text = "whsec_" + base64.StdEncoding.EncodeToString(key)
			}
			one.verify.Secrets[i].Text = text
			changed = changed || text != s.Text
		}
		if changed {
			all = append(all, one)
		}
	}
	after := func(s string) string { return strings.TrimPrefix(s, "whsec_") }
	unhex := func(s string) []byte {
		raw, _ := hex.DecodeString(after(s)) // else it is no key in hex
		return raw
	}
	if standard {
		each("the sender's key is the text of the secret, with whsec_ before it", "decode what follows whsec_ from base64: those bytes are the key",
			func(s string) []byte { return []byte("whsec_" + after(s)) })
		each("the sender's key is the text after whsec_, not decoded", "decode what follows whsec_ from base64: those bytes are the key",
			func(s string) []byte { return []byte(after(s)) })
	} else {
		each("the sender's key is the secret without whsec_", "use the whole text of the secret, whsec_ included, as the key",
			func(s string) []byte { return []byte(after(s)) })
		each("the sender's key is the secret decoded from base64", "use the secret's text as the key, or give the scheme hmac base64:…",
			func(s string) []byte { return unbase64(after(s)) })
	}
	each("the sender's key is the secret decoded from hex", "agree on the key's form: its text, or its bytes (hex:… for hmac)", unhex)
	each("the secret has spaces or quotes around it", "remove them where the secret is stored", func(s string) []byte {
		inner := strings.Trim(after(s), " \t\r\n\"'")
		if inner == after(s) || standard {
			return unbase64(inner)
		}
		return []byte(inner)
	})
	return all
}

// templates are usual signed texts.
var templates = []string{"{body}", "{timestamp}.{body}", "{timestamp}{body}", "{timestamp}:{body}", "v0:{timestamp}:{body}", "{id}.{body}",
	"{id}.{timestamp}.{body}", "{timestamp}.{id}.{body}", "{id}{timestamp}{body}", "{body}{timestamp}", "{url}{body}"}

// contents undoes other signed texts and hashes: it asks the scheme that takes any.
func contents(a attempt) (all []attempt) {
	proof, err := a.verify.Evidence(&a.request)
	if err != nil || len(proof.Headers) == 0 || proof.Signed == "" {
		return nil
	}
	for _, found := range token.FindAllString(a.request.Header.Get(proof.Headers[0]), 10) {
		raw, err := hex.DecodeString(found)
		encoding := "hex"
		if err != nil {
			raw, encoding = unbase64(found), "base64"
			found = base64.StdEncoding.EncodeToString(raw)
		}
		algorithm := map[int]string{20: "sha1", 32: "sha256", 64: "sha512"}[len(raw)]
		if algorithm == "" {
			continue
		}
		for _, signed := range templates {
			if strings.Contains(signed, "{timestamp}") && proof.Timestamp == "" || strings.Contains(signed, "{id}") && proof.ID == "" {
				continue
			}
			covers := "covers " + signed
			if a.verify.Algorithm != "" && a.verify.Algorithm != algorithm || a.verify.Algorithm == "" && algorithm != "sha256" {
				covers += " with HMAC-" + strings.ToUpper(algorithm)
			}
			detail := "the signature " + covers + ", and the scheme " + a.verify.Scheme + " wants " + proof.Signed
			one := a.with("content", detail+missing(proof.Signed, signed), "sign "+proof.Signed+", byte for byte, with the same id and timestamp as in the headers")
			one.request.Header = http.Header{"X-Signature": {found}, "X-Time": {proof.Timestamp}, "X-Id": {proof.ID},
				"Content-Type": a.request.Header["Content-Type"]}
			one.verify = scheme.Settings{Scheme: "hmac", Header: "X-Signature", Algorithm: algorithm, Encoding: encoding, Signed: signed, IDHeader: "X-Id",
				Secrets: slices.Clone(a.verify.Secrets)}
			if strings.Contains(signed, "{timestamp}") {
				one.verify.TimestampHeader = "X-Time"
			}
			for i, s := range one.verify.Secrets {
				if key, is := strings.CutPrefix(s.Text, "whsec_"); is && a.verify.Scheme != "stripe" {
					one.verify.Secrets[i].Text = "base64:" + key
				}
			}
			all = append(all, one)
		}
	}
	return all
}

// missing names the parts of the signed text that another one lacks.
func missing(wanted, signed string) string {
	var parts []string
	for _, part := range []string{"id", "timestamp", "url"} {
		if strings.Contains(wanted, "{"+part+"}") && !strings.Contains(signed, "{"+part+"}") {
			parts = append(parts, part)
		}
	}
	if parts == nil {
		return ""
	}
	return ": not signed: " + strings.Join(parts, ", ")
}
