package byhand

import (
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/grapnelhq/grapnel/internal/base/scheme"
)

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
		each("the secret has spaces or quotes around it", "remove them where the secret is stored",
			func(s string) []byte { return []byte(strings.Trim(s, " \t\r\n\"'")) })
	}
	each("the sender's key is the secret decoded from hex", "agree on the key's form: its text, or its bytes (hex:… for hmac)",
		func(s string) []byte {
			raw, _ := hex.DecodeString(after(s)) // else it is no key in hex
			return raw
		})
	return all
}

// addresses undoes what proxies do to the URL, for signatures that cover it.
func addresses(a attempt) (all []attempt) {
	proof, err := a.verify.Evidence(&a.request)
	at, wrong := url.Parse(a.request.URL)
	if err != nil || wrong != nil || !proof.URL {
		return nil
	}
	get := a.request.Header.Get
	for _, change := range []func(*url.URL){
		func(u *url.URL) { u.Host = cmp.Or(get("X-Forwarded-Host"), get("X-Original-Host"), u.Host) },
		func(u *url.URL) { u.Path = strings.TrimSuffix(get("X-Forwarded-Prefix"), "/") + u.Path },
		func(u *url.URL) { u.Path = strings.TrimSuffix(u.Path, "/") },
		func(u *url.URL) { u.Path += "/" },
		func(u *url.URL) { u.RawQuery = "" },
	} {
		was := *at
		change(&was)
		if was != *at {
			one := a.with("content", "the signature covers the URL "+was.String()+", and the request has "+at.String(),
				"verify with the URL that the provider was given, not with the one behind the proxy")
			one.request.URL = was.String()
			all = append(all, one)
		}
	}
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
