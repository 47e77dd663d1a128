package main

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/grapnelhq/grapnel/internal/base/scheme"
	"github.com/grapnelhq/grapnel/internal/face/cli"
	"github.com/grapnelhq/grapnel/internal/inbound/byhand"
	"github.com/grapnelhq/grapnel/internal/proof/torture"
)

// profile makes and signs requests as a provider does.
type profile struct {
	scheme.Settings
	to      string
	fixture *byhand.Fixture // nil: the payload of docs/torture.md
}

// profileOf is the profile of a name, or of a YAML file with the settings of the scheme hmac.
func profileOf(name, to, body, secret string) (torture.Scheme, error) {
	if name == "standard" {
		return torture.Standard(), nil
	}
	p := &profile{Settings: scheme.Settings{Scheme: name}, to: to}
	if kind := filepath.Ext(name); kind == ".yaml" || kind == ".yml" {
		if err := p.read(name, body); err != nil {
			return torture.Scheme{}, err
		}
	} else {
		if scheme.Find(name) == nil {
			return torture.Scheme{}, noScheme(name)
		}
		fixtures, err := byhand.Fixtures(name)
		if err != nil {
			return torture.Scheme{}, err
		}
		if len(fixtures) > 0 {
			p.fixture = &fixtures[0]
		}
	}
	v := scheme.New(p.Settings)
	out := torture.Scheme{Name: name, Sign: p.sign, SignsID: v.Signs == scheme.SignsIDs, Several: v.Proof == scheme.ByStandard,
		Secret: func() string { return "torture_" + rand.Text() }}
	if out.Several {
		out.Secret = torture.Standard().Secret
	}
	if p.fixture != nil {
		out.New = p.event
	}
	sample, err := p.sample()
	if err != nil {
		return torture.Scheme{}, err
	}
	signing := p.Settings
	signing.Secrets = []scheme.Secret{{Text: secret}}
	evidence, err := signing.Evidence(sample)
	if err != nil {
		return torture.Scheme{}, cli.Usagef("--profile %s: %v", name, err)
	}
	if len(evidence.Headers) == 0 {
		return torture.Scheme{}, cli.Usagef("--profile %s: its signature is in no header", name)
	}
	out.Signature, out.Timed = evidence.Headers[0], strings.Contains(evidence.Signed, "{timestamp}")
	return out, nil
}

// read reads a profile of the user's own.
func (p *profile) read(name, body string) error {
	var file struct {
		Header          string `yaml:"header"`
		Algorithm       string `yaml:"algorithm"`
		Encoding        string `yaml:"encoding"`
		Prefix          string `yaml:"prefix"`
		Signed          string `yaml:"signed"`
		TimestampHeader string `yaml:"timestamp_header"`
		IDHeader        string `yaml:"id_header"`
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return cli.Usagef("--profile: %v", err)
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&file); err != nil {
		return cli.Usagef("--profile %s: %v", name, err)
	}
	p.Settings = scheme.Settings{Scheme: "hmac", Header: file.Header, Algorithm: file.Algorithm, Encoding: file.Encoding, Prefix: file.Prefix,
		Signed: file.Signed, TimestampHeader: file.TimestampHeader, IDHeader: file.IDHeader}
	if file.IDHeader == "" && !strings.Contains(body, "{event}") {
		return cli.Usagef("--profile %s: the receiver gets no id; give id_header, or a --body with {event}", name)
	}
	return nil
}

// sample is an unsigned request.
func (p *profile) sample() (*scheme.Webhook, error) {
	if p.fixture != nil {
		return p.fixture.Request(p.to, time.Now(), rand.Reader, nil)
	}
	w := &scheme.Webhook{Method: http.MethodPost, URL: p.to, Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte("{}")}
	if p.IDHeader != "" {
		w.Header.Set(p.IDHeader, "msg_1")
	}
	return w, nil
}

// event is a new event of the fixture.
func (p *profile) event(now time.Time) (string, http.Header, []byte, error) {
	w, err := p.fixture.Request(p.to, now, rand.Reader, nil)
	if err != nil {
		return "", nil, nil, err
	}
	id, err := p.id(w)
	return id, w.Header, w.Body, err
}

// id is where the provider has the event's id, else the delivery's.
func (p *profile) id(w *scheme.Webhook) (string, error) {
	r, err := http.NewRequest(w.Method, w.URL, nil) //nolint:noctx // it is not sent
	if err != nil {
		return "", err
	}
	r.Header = w.Header
	v := scheme.New(p.Settings)
	in := v.Request(r, w.Body, time.Now(), "")
	id := cmp.Or(in.Find(v.IDs.Event), in.Find(v.IDs.Delivery))
	if id == "" {
		err = fmt.Errorf("events of %s have no id, so their effects cannot be told apart", p.Scheme)
	}
	return id, err
}

// sign returns the headers of a request. Without headers those of a fixture are used, with its id
// replaced.
func (p *profile) sign(id string, at time.Time, header http.Header, body []byte, secrets ...string) (http.Header, error) {
	if header == nil {
		w, err := p.sample()
		if err != nil {
			return nil, err
		}
		if header = w.Header; p.IDHeader != "" {
			header.Set(p.IDHeader, id)
		} else if was, err := p.id(w); err == nil {
			torture.Replaced(header, was, id)
		}
	}
	s := p.Settings
	for _, text := range secrets {
		s.Secrets = append(s.Secrets, scheme.Secret{Text: text})
	}
	w := &scheme.Webhook{Method: http.MethodPost, URL: p.to, Header: header.Clone(), Body: body}
	if err := s.Sign(w, at, id); err != nil {
		return nil, err
	}
	if w.URL != p.to || !bytes.Equal(w.Body, body) {
		return nil, fmt.Errorf("%s writes its signature into the URL or the body", p.Scheme)
	}
	return w.Header, nil
}
