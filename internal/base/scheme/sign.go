package scheme

import (
	"bytes"
	"cmp"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel/internal/base/canonical"
	"github.com/grapnelhq/grapnel/sign"
)

// Webhook is a request without a connection: made by hand, or read from a file.
type Webhook struct {
	Method string
	URL    string // the whole one that the provider was given
	Header http.Header
	Body   []byte
}

// Check verifies a webhook as of a time, and returns the steps.
func (s *Settings) Check(w *Webhook, now time.Time) ([]Check, bool, error) {
	in, err := s.look(w, now)
	if err != nil {
		return nil, false, err
	}
	ok := in.Verify()
	return in.Checks, ok, nil
}

// look looks at a webhook.
func (s *Settings) look(w *Webhook, now time.Time) (*Request, error) {
	if wrong := s.Faults(); len(wrong) > 0 {
		return nil, fmt.Errorf("%s: %s", wrong[0].Field, wrong[0].Detail)
	}
	r, err := http.NewRequest(w.Method, w.URL, bytes.NewReader(w.Body)) //nolint:noctx // it is not sent
	if err != nil {
		return nil, err
	}
	r.Header = w.Header
	return New(*s).Request(r, w.Body, now, ""), nil
}

// Evidence is what proves the origin of a request, for those who look for it elsewhere.
type Evidence struct {
	Headers   []string // that are needed; the first one has the signature, unless that is in the body
	Prefix    string   // before the signature
	Signed    string   // the template of the signed text; empty: the scheme has a form of its own
	Timestamp string   // of this request; empty: none
	ID        string   // of this request, if it is signed
	At        time.Time
	URL       bool // the URL is signed
}

// Evidence finds it in a webhook.
func (s *Settings) Evidence(w *Webhook) (*Evidence, error) {
	in, err := s.look(w, time.Time{})
	if err != nil {
		return nil, err
	}
	v := in.v
	p := &Evidence{Prefix: v.prefix, Signed: cmp.Or(s.Signed, v.signed), URL: v.Proof == ByTwilio || v.template.has("url")}
	stamps := v.timestamp
	if as := v.standardPrefix(); as != "" {
		p.Headers = []string{as + "Signature", as + "Timestamp", as + "Id"}
		p.Signed, stamps = "{id}.{timestamp}.{body}", []Place{header(as + "Timestamp"), header("Webhook-Timestamp")}
	} else {
		if v.header != "" {
			p.Headers = []string{v.header}
		}
		for _, place := range stamps {
			if place.in == inHeader {
				p.Headers = append(p.Headers, place.name)
			}
		}
		if s.IDHeader != "" && v.template.has("id") {
			p.Headers = append(p.Headers, textproto.CanonicalMIMEHeaderKey(s.IDHeader))
		}
	}
	p.Timestamp, p.ID = in.Find(stamps), in.Find(v.IDs.Event)
	if v.pairs != "" {
		p.Timestamp, _, _ = in.paired(w.Header.Get(v.header))
	}
	p.At, _ = parseStamp(p.Timestamp)
	return p, nil
}

// standardPrefix begins the names of the headers of Standard Webhooks; empty: the requests have a
// proof of another kind.
func (v *Verifier) standardPrefix() string {
	switch {
	case v.Proof == ByStandard:
		return v.Row.header
	case v.Proof == ByEither && len(v.secrets) > 0 && v.secrets[0].standard != nil:
		return "Webhook-"
	default:
		return ""
	}
}

// Sign signs a webhook as the provider does at a time. id is for a webhook that has none and whose
// scheme signs one. A scheme whose signature is in the body, or needs the body's hash in the URL,
// changes those too.
func (s *Settings) Sign(w *Webhook, at time.Time, id string) error {
	of, keys := *s, make([]string, len(s.Secrets))
	of.Secrets = slices.Clone(s.Secrets)
	for i, k := range s.Secrets {
		public, err := PublicHalf(s.Scheme, k.Text)
		if err != nil {
			return err
		}
		keys[i], of.Secrets[i].Text = k.Text, public
	}
	if row := Find(s.Scheme); row != nil && row.Proof != ByNothing && len(keys) == 0 {
		return fmt.Errorf("the scheme %s needs a secret: %s", row.Name, row.Needs)
	}
	in, err := of.look(w, at)
	if err != nil {
		return err
	}
	v, to := in.v, signing{in, w, keys, id}
	switch as := v.standardPrefix(); {
	case v.Proof == ByNothing:
		return nil
	case as != "":
		return to.standard(as)
	case v.Proof == ByToken || v.Proof == ByEither:
		w.Header.Set(v.header, v.prefix+keys[0])
	case v.Proof == ByBasic:
		w.Header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(s.Username+":"+keys[0])))
	case v.Proof == ByTwilio:
		return to.twilio()
	case v.Proof == ByAdyen:
		text, _, sound := in.adyenText()
		if !sound {
			return errors.New("the body is not one notification of Adyen: a signed field is missing, is there twice, or has a colon")
		}
		return to.write(body(adyenItem+"additionalData.hmacSignature"), base64.StdEncoding.EncodeToString(v.secrets[0].macs.of(text)))
	default:
		return to.template()
	}
	return nil
}

// signing is a webhook on its way to a signature.
type signing struct {
	*Request
	to   *Webhook
	keys []string
	id   string
}

func (s *signing) standard(prefix string) error {
	header := s.to.Header
	if header.Get(prefix+"Id") == "" {
		header.Set(prefix+"Id", s.id)
	}
	var all []string
	for _, key := range s.keys {
		usual := key
		if !strings.HasPrefix(key, sign.PrivatePrefix) {
			usual, _ = standardSecret(key) // byHand has read it
		}
		one, err := sign.Sign(header.Get(prefix+"Id"), s.now, s.body, usual)
		if err != nil {
			return err
		}
		all = append(all, one)
	}
	header.Set(prefix+"Timestamp", strconv.FormatInt(s.now.Unix(), 10))
	header.Set(prefix+"Signature", strings.Join(all, " "))
	return nil
}

func (s *signing) twilio() error {
	sum := s.twilioHash()
	if sum == nil {
		return errors.New("header " + twilioSettings + " names no supported algorithm")
	}
	if len(s.form()) == 0 && len(s.body) > 0 {
		hashed := sha256.Sum256(s.body)
		query := s.r.URL.Query()
		query.Set("bodySHA256", hex.EncodeToString(hashed[:]))
		s.r.URL.RawQuery = query.Encode()
		s.to.URL = s.r.URL.String()
	}
	_, fields := s.twilioBody()
	mac := newMACs(sum, s.v.secrets[0].key)
	s.to.Header.Set(s.v.header, base64.StdEncoding.EncodeToString(mac.of(s.to.URL+fields)))
	return nil
}

// template signs what the row's template says.
func (s *signing) template() error {
	v, fields := s.v, signed{url: s.to.URL}
	if v.pairTime != "" {
		fields.timestamp = strconv.FormatInt(s.now.Unix(), 10)
	} else if len(v.timestamp) > 0 {
		given := s.Find(v.timestamp)
		fields.timestamp = likeStamp(given, s.now)
		if err := s.into(v.timestamp, fields.timestamp); err != nil {
			return err
		}
	}
	if v.template.has("id") {
		if fields.id = s.Find(v.IDs.Event); fields.id == "" {
			fields.id = s.id
			if err := s.into(v.IDs.Event, s.id); err != nil {
				return err
			}
		}
	}
	if v.template.has(tokenField) {
		fields.token = s.Find(v.IDs.Delivery)
	}
	var message bytes.Buffer
	v.template.write(&message, s.Request, fields)
	var all []string
	for i, key := range s.keys {
		raw, err := s.signature(key, &v.secrets[i], message.Bytes())
		if err != nil {
			return err
		}
		text := hex.EncodeToString(raw)
		if v.encoding == "base64" {
			text = base64.StdEncoding.EncodeToString(raw)
		}
		all = append(all, text)
	}
	switch {
	case len(v.signature) > 0:
		return s.into(v.signature, all[0])
	case v.pairs != "":
		pairs := v.pairTime + "=" + fields.timestamp
		for _, one := range all {
			pairs += v.pairs + v.pairSum + "=" + one
		}
		s.to.Header.Set(v.header, pairs)
	default:
		s.to.Header.Set(v.header, v.prefix+all[0])
	}
	return nil
}

func (s *signing) signature(key string, k *secret, message []byte) ([]byte, error) {
	switch s.v.Proof {
	case ByEd25519, ByECDSA:
		private, err := privateKey(s.v.Row, key)
		if err != nil {
			return nil, err
		}
		if s.v.Proof == ByEd25519 {
			return private.Sign(rand.Reader, message, crypto.Hash(0))
		}
		sum := sha256.Sum256(message)
		return private.Sign(rand.Reader, sum[:], crypto.SHA256)
	default:
		return k.macs.of(string(message)), nil
	}
}

// likeStamp is a time in the form of another one; in seconds without one.
func likeStamp(given string, at time.Time) string {
	switch _, err := time.Parse(time.RFC3339, given); {
	case err == nil:
		return at.UTC().Format(time.RFC3339)
	case len(given) > 14:
		return strconv.FormatInt(at.UnixMicro(), 10)
	case len(given) > 11:
		return strconv.FormatInt(at.UnixMilli(), 10)
	default:
		return strconv.FormatInt(at.Unix(), 10)
	}
}

// into writes a value to the place that has one already, else to the first that is a header.
func (s *signing) into(places []Place, text string) error {
	for _, p := range places {
		if s.at(p) != "" {
			return s.write(p, text)
		}
	}
	if places[0].in == inHeader {
		return s.write(places[0], text)
	}
	return fmt.Errorf("the body has no %s", names(places))
}

func (s *signing) write(p Place, text string) error {
	switch p.in {
	case inHeader:
		s.to.Header[textproto.CanonicalMIMEHeaderKey(p.name)] = []string{text}
		return nil
	case inForm:
		form, _ := url.ParseQuery(string(s.body)) // at has read it
		form.Set(p.name, text)
		s.body = []byte(form.Encode())
	case inBody:
		found := canonical.Get(s.body, p.name)
		if !found.Exists() {
			return fmt.Errorf("the body has no %s", p)
		}
		if _, is := found.Text(); is {
			text = strconv.Quote(text)
		}
		s.body = slices.Concat(s.body[:found.At], []byte(text), s.body[found.At+len(found.Raw):])
	default:
		return fmt.Errorf("%s cannot be written", p)
	}
	s.to.Body, s.fields, s.read = s.body, nil, false
	return nil
}

// PublicHalf is the secret of a source that verifies what a key signs: of a private key its public
// half, of any other the key itself.
func PublicHalf(scheme, key string) (string, error) {
	row := Find(scheme)
	switch {
	case strings.HasPrefix(key, sign.PrivatePrefix) && row != nil && (row.Proof == ByStandard || row.Proof == ByEither):
		return sign.PublicKey(key)
	case strings.HasPrefix(key, sign.PublicPrefix):
		return "", errors.New("a public key cannot sign: give the private one, whsk_…")
	case row == nil || row.Proof != ByEd25519 && row.Proof != ByECDSA:
		return key, nil
	}
	private, err := privateKey(row, key)
	if err != nil {
		return "", err
	}
	if half, is := private.Public().(ed25519.PublicKey); is {
		return hex.EncodeToString(half), nil
	}
	der, err := x509.MarshalPKIXPublicKey(private.Public())
	return base64.StdEncoding.EncodeToString(der), err
}

// privateKey reads a private key in PEM.
func privateKey(row *Row, text string) (crypto.Signer, error) {
	wants := "Ed25519"
	if row.Proof == ByECDSA {
		wants = "P-256"
	}
	if block, _ := pem.Decode([]byte(text)); block != nil {
		key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		if err != nil {
			key, _ = x509.ParseECPrivateKey(block.Bytes)
		}
		switch key := key.(type) {
		case ed25519.PrivateKey:
			if row.Proof == ByEd25519 {
				return key, nil
			}
		case *ecdsa.PrivateKey:
			if row.Proof == ByECDSA && key.Curve == elliptic.P256() {
				return key, nil
			}
		}
	}
	how := "openssl genpkey -algorithm ed25519"
	if wants == "P-256" {
		how = "openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256"
	}
	return nil, fmt.Errorf("%s signs with a private key that only it has; to sign like it, give one of %s in PEM (%s) "+
		"and its public half to the receiver", row.Title, wants, how)
}
