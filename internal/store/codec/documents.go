package codec

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/policy"
)

// Configuration and standings are stored as JSON documents. The types are those of package grapnel
// with some fields replaced, so a new field is stored without a change here; policies encode
// themselves. Times are cut to microseconds.

type endpointDocument struct {
	grapnel.Endpoint
	Secrets []secretDocument // instead of those that hide their text
	Channel *channelDocument `json:",omitzero"`
	OAuth2  *oauth2Document  `json:",omitzero"`
	TLS     *tlsDocument     `json:",omitzero"`
	Target  *targetDocument  `json:",omitzero"`
	Proxy   secretDocument   `json:",omitzero"`
}

type channelDocument struct {
	grapnel.Channel
	URL secretDocument // instead of the one that hides its text
}

type oauth2Document struct {
	grapnel.OAuth2
	ClientSecret secretDocument // instead of the one that hides its text
}

type tlsDocument struct {
	grapnel.TLS
	ClientKey secretDocument // instead of the one that hides its text
}

type targetDocument struct {
	grapnel.Target
	Password secretDocument // instead of the one that hides its text
}

type sourceDocument struct {
	grapnel.Source
	Verify verifyDocument
	Outbox *outboxDocument
	Broker *targetDocument `json:",omitzero"`
	TLS    *tlsDocument    `json:",omitzero"`
}

type outboxDocument struct{ DSN secretDocument }

type verifyDocument struct {
	grapnel.Verify
	Secrets []secretDocument // instead of those that hide their text
}

type secretDocument struct {
	Text      string
	CreatedAt time.Time
	ExpiresAt time.Time
}

type accessDocument struct {
	grapnel.AccessRecord
	Terms  *termsDocument  `json:",omitzero"`
	Sender *senderDocument `json:",omitzero"`
}

type senderDocument struct {
	grapnel.Sender
	URL secretDocument // instead of the one that hides its text
}

type termsDocument struct {
	grapnel.Terms
	Proxy secretDocument // instead of the one that hides its text
}

type keyDocument struct {
	grapnel.Key
	Hash []byte // instead of the array, which would be a list of numbers
}

// EncodeEndpoint writes one.
func EncodeEndpoint(ep grapnel.Endpoint) ([]byte, error) {
	cut(&ep.DisabledAt, &ep.CreatedAt, &ep.UpdatedAt, &ep.DeletedAt)
	ep.Former = slices.Clone(ep.Former)
	for i := range ep.Former {
		cut(&ep.Former[i].Until)
	}
	doc := endpointDocument{Endpoint: ep, Secrets: showSecrets(ep.Secrets)}
	doc.Endpoint.Secrets, doc.Endpoint.Channel, doc.Endpoint.OAuth2, doc.Endpoint.TLS, doc.Endpoint.Target = nil, nil, nil, nil, nil
	if ep.Channel != nil {
		doc.Channel = &channelDocument{*ep.Channel, showSecret(ep.Channel.URL)}
	}
	if ep.OAuth2 != nil {
		doc.OAuth2 = &oauth2Document{*ep.OAuth2, showSecret(ep.OAuth2.ClientSecret)}
	}
	if ep.TLS != nil {
		doc.TLS = &tlsDocument{*ep.TLS, showSecret(ep.TLS.ClientKey)}
	}
	if ep.Target != nil {
		doc.Target = &targetDocument{*ep.Target, showSecret(ep.Target.Password)}
	}
	doc.Proxy = showSecret(ep.Proxy)
	return encodeDocument(doc, "endpoint", DecodeEndpoint)
}

// DecodeEndpoint reads one, which has this revision.
func DecodeEndpoint(revision int64, body []byte) (grapnel.Endpoint, error) {
	doc, err := decodeDocument[endpointDocument]("endpoint", body)
	if err != nil {
		return grapnel.Endpoint{}, err
	}
	ep := doc.Endpoint
	ep.Secrets = hideSecrets(doc.Secrets)
	if doc.Channel != nil {
		ep.Channel = &doc.Channel.Channel
		ep.Channel.URL = grapnel.Secret(doc.Channel.URL)
	}
	if doc.OAuth2 != nil {
		ep.OAuth2 = &doc.OAuth2.OAuth2
		ep.OAuth2.ClientSecret = grapnel.Secret(doc.OAuth2.ClientSecret)
	}
	if doc.TLS != nil {
		ep.TLS = &doc.TLS.TLS
		ep.TLS.ClientKey = grapnel.Secret(doc.TLS.ClientKey)
	}
	if doc.Target != nil {
		ep.Target = &doc.Target.Target
		ep.Target.Password = grapnel.Secret(doc.Target.Password)
	}
	ep.Proxy = grapnel.Secret(doc.Proxy)
	ep.Revision = revision
	return ep, nil
}

func showSecret(secret grapnel.Secret) secretDocument {
	cut(&secret.CreatedAt, &secret.ExpiresAt)
	return secretDocument(secret)
}

func showSecrets(secrets []grapnel.Secret) (docs []secretDocument) {
	for _, secret := range secrets {
		docs = append(docs, showSecret(secret))
	}
	return docs
}

func hideSecrets(docs []secretDocument) (secrets []grapnel.Secret) {
	for _, doc := range docs {
		secrets = append(secrets, grapnel.Secret(doc))
	}
	return secrets
}

// EncodeSource writes one.
func EncodeSource(src grapnel.Source) ([]byte, error) {
	cut(&src.CreatedAt, &src.UpdatedAt)
	doc := sourceDocument{Source: src, Verify: verifyDocument{Verify: src.Verify, Secrets: showSecrets(src.Verify.Secrets)}}
	doc.Source.Verify, doc.Source.Outbox, doc.Source.Broker, doc.Source.TLS, doc.Verify.Verify.Secrets = grapnel.Verify{}, nil, nil, nil, nil
	if src.Outbox != nil {
		doc.Outbox = &outboxDocument{showSecret(src.Outbox.DSN)}
	}
	if src.Broker != nil {
		doc.Broker = &targetDocument{*src.Broker, showSecret(src.Broker.Password)}
	}
	if src.TLS != nil {
		doc.TLS = &tlsDocument{*src.TLS, showSecret(src.TLS.ClientKey)}
	}
	return encodeDocument(doc, "source", DecodeSource)
}

// DecodeSource reads one, which has this revision.
func DecodeSource(revision int64, body []byte) (grapnel.Source, error) {
	doc, err := decodeDocument[sourceDocument]("source", body)
	if err != nil {
		return grapnel.Source{}, err
	}
	src := doc.Source
	src.Verify = doc.Verify.Verify
	src.Verify.Secrets = hideSecrets(doc.Verify.Secrets)
	if doc.Outbox != nil {
		src.Outbox = &grapnel.Outbox{DSN: grapnel.Secret(doc.Outbox.DSN)}
	}
	if doc.Broker != nil {
		src.Broker = &doc.Broker.Target
		src.Broker.Password = grapnel.Secret(doc.Broker.Password)
	}
	if doc.TLS != nil {
		src.TLS = &doc.TLS.TLS
		src.TLS.ClientKey = grapnel.Secret(doc.TLS.ClientKey)
	}
	src.Revision = revision
	return src, nil
}

// EncodePolicy writes one.
func EncodePolicy(p grapnel.NamedPolicy) ([]byte, error) {
	cut(&p.CreatedAt, &p.UpdatedAt)
	return encodeDocument(p, "policy", DecodePolicy)
}

// DecodePolicy reads one, which has this revision.
func DecodePolicy(revision int64, body []byte) (grapnel.NamedPolicy, error) {
	p, err := decodeDocument[grapnel.NamedPolicy]("policy", body)
	p.Revision = revision
	return p, err
}

// EncodeEventType writes one.
func EncodeEventType(t grapnel.EventType) ([]byte, error) {
	cut(&t.CreatedAt, &t.UpdatedAt)
	t.Versions = slices.Clone(t.Versions)
	for i := range t.Versions {
		cut(&t.Versions[i].CreatedAt, &t.Versions[i].DeprecatedAt)
	}
	return encodeDocument(t, "event type", DecodeEventType)
}

// DecodeEventType reads one, which has this revision.
func DecodeEventType(revision int64, body []byte) (grapnel.EventType, error) {
	t, err := decodeDocument[grapnel.EventType]("event type", body)
	t.Revision = revision
	return t, err
}

// EncodeKey writes one.
func EncodeKey(k grapnel.Key) ([]byte, error) {
	cut(&k.CreatedAt, &k.ExpiresAt)
	return encodeDocument(keyDocument{Key: k, Hash: k.Hash[:]}, "key", DecodeKey)
}

// DecodeKey reads one, which has this revision.
func DecodeKey(_ int64, body []byte) (grapnel.Key, error) {
	doc, err := decodeDocument[keyDocument]("key", body)
	copy(doc.Key.Hash[:], doc.Hash)
	return doc.Key, err
}

// EncodeAccess writes one, with its times to the nanosecond.
func EncodeAccess(r grapnel.AccessRecord) ([]byte, error) {
	doc := accessDocument{AccessRecord: r}
	if doc.AccessRecord.Terms = nil; r.Terms != nil {
		doc.Terms = &termsDocument{*r.Terms, showSecret(r.Terms.Proxy)}
	}
	if doc.AccessRecord.Sender = nil; r.Sender != nil {
		doc.Sender = &senderDocument{*r.Sender, showSecret(r.Sender.URL)}
	}
	return encodeDocument(doc, "access record", DecodeAccess)
}

// DecodeAccess reads one, which has no revision.
func DecodeAccess(_ int64, body []byte) (grapnel.AccessRecord, error) {
	doc, err := decodeDocument[accessDocument]("access record", body)
	r := doc.AccessRecord
	if doc.Terms != nil {
		r.Terms = &doc.Terms.Terms
		r.Terms.Proxy = grapnel.Secret(doc.Terms.Proxy)
	}
	if doc.Sender != nil {
		r.Sender = &doc.Sender.Sender
		r.Sender.URL = grapnel.Secret(doc.Sender.URL)
	}
	return r, err
}

// EncodeReplay encodes a replay's settings and status. The counts are stored in columns of their
// own.
func EncodeReplay(r grapnel.Replay) ([]byte, error) {
	cut(&r.Selection.From, &r.Selection.To, &r.CreatedAt, &r.UpdatedAt, &r.FinishedAt)
	r.UpTo, r.Cursor, r.Started, r.Done, r.Delivered, r.Failed, r.Row = 0, 0, 0, 0, 0, 0, 0
	return encodeDocument(r, "replay", DecodeReplay)
}

// DecodeReplay reads one, which has this revision.
func DecodeReplay(revision int64, body []byte) (grapnel.Replay, error) {
	r, err := decodeDocument[grapnel.Replay]("replay", body)
	r.Revision = revision
	return r, err
}

// EncodeStanding encodes a standing without its number, which is stored separately. Package policy
// defines its fields, so its times are found by reflection.
func EncodeStanding(s policy.Standing) ([]byte, error) {
	fields := reflect.ValueOf(&s).Elem()
	for i := range fields.NumField() {
		if at, is := fields.Field(i).Addr().Interface().(*time.Time); is {
			cut(at)
		}
	}
	return encodeDocument(s, "standing", DecodeStanding)
}

// DecodeStanding reads one.
func DecodeStanding(_ int64, body []byte) (policy.Standing, error) {
	return decodeDocument[policy.Standing]("standing", body)
}

func decodeDocument[T any](what string, body []byte) (doc T, err error) {
	if err = json.Unmarshal(body, &doc); err != nil {
		err = fmt.Errorf("store: a stored %s cannot be read: %w", what, err)
	}
	return doc, err
}

// encodeDocument also decodes its result: a document that cannot be read would keep the server from
// starting.
func encodeDocument[T any](doc any, what string, decode func(int64, []byte) (T, error)) ([]byte, error) {
	body, err := json.Marshal(doc)
	if err == nil {
		_, err = decode(0, body)
	}
	if err != nil {
		return nil, &grapnel.Error{Code: grapnel.CodeInvalid, Detail: "this " + what + " cannot be stored", Err: err}
	}
	return body, nil
}

func cut(times ...*time.Time) {
	for _, at := range times {
		*at = Moment(Micros(*at))
	}
}
