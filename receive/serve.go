package receive

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// maxKey is the length of the longest event id, in bytes: an index of PostgreSQL takes 2,704.
const maxKey = 512

// Endpoint is the http.Handler of a source in one mode.
type Endpoint struct {
	kit *Kit
	run mode
}

// mode takes a delivery from its bid to a durable result.
type mode func(ctx context.Context, d *Delivery, b Bid) result

type result struct {
	outcome Outcome
	err     error         // what the observer gets
	after   time.Duration // of Retry-After; 0: none
}

// ServeHTTP receives one request. The events of a batch run one after the other, up to the first
// that fails. A verified request that asks the address for its consent is answered with its token;
// neither the handler nor the observer gets it.
//
// The handler's context does not end with the client's connection: a sender that stops waiting
// repeats the request, and the repetition should find the event processed.
func (e *Endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	k, began, seen := e.kit, e.kit.opt.Now(), []Observation{}
	end := func(d *Delivery, res result) {
		seen = append(seen, Observation{Source: k.opt.Source, ID: d.ID, Outcome: res.outcome, Err: res.err, Generation: d.Generation,
			Attempt: d.Attempt, Took: k.opt.Now().Sub(began)})
	}
	res := result{outcome: Overloaded}
	select {
	case k.slots <- struct{}{}:
		defer func() { <-k.slots }()
		var all []*Delivery
		if all, res = k.read(w, r); res.outcome != "" {
			end(all[0], res)
		} else if token := all[0].token(); token != "" && len(all) == 1 {
			consent(w, token)
			return
		}
		for i := 0; i < len(all) && (res.outcome == "" || res.outcome.Status()/100 == 2); i++ {
			res = e.run(context.WithoutCancel(r.Context()), all[i], k.bid(all[i]))
			end(all[i], res)
		}
		if len(all) > 1 && res.outcome.Status()/100 != 2 {
			res = result{outcome: Failed} // without a reason to pause: each event comes alone
		}
	default:
		end(&Delivery{}, res)
	}
	write(w, res)
	for _, o := range seen {
		k.observe(o)
	}
}

// read makes the deliveries of a request, at least one. A result with an outcome ends the request.
func (k *Kit) read(w http.ResponseWriter, r *http.Request) ([]*Delivery, result) {
	d := &Delivery{Source: k.opt.Source, Header: r.Header}
	fails := func(outcome Outcome, err error) ([]*Delivery, result) {
		return []*Delivery{d}, result{outcome: outcome, err: err}
	}
	var err error
	if d.Body, err = io.ReadAll(http.MaxBytesReader(w, r.Body, k.opt.MaxBody)); err != nil {
		if large := new(http.MaxBytesError); errors.As(err, &large) {
			return fails(TooLarge, err)
		}
		return fails(Failed, fmt.Errorf("%w: reading the body: %w", ErrMalformed, err))
	}
	verified, err := k.opt.Verifier.Verify(r, d.Body, k.opt.Now())
	if err != nil {
		outcome := Unverified
		switch {
		case errors.Is(err, ErrExpired):
			outcome = Expired
		case errors.Is(err, ErrMalformed):
			outcome = Malformed
		}
		return fails(outcome, err)
	}
	d.ID, d.Timestamp, d.secret = verified.ID, verified.Timestamp, verified.Secret
	if k.opt.Batches && len(d.Body) > 0 && d.Body[0] == '[' {
		all, err := d.split()
		if err != nil {
			return fails(Malformed, err)
		}
		return all, result{}
	}
	if d.ID == "" && k.opt.KeyFromBody != nil {
		if d.ID, err = k.opt.KeyFromBody(d.Body); err != nil {
			return fails(Malformed, err)
		}
		d.fromBody = true
	}
	if err := checkID(d.ID); err != nil {
		return fails(Malformed, err)
	}
	return []*Delivery{d}, result{}
}

// split makes a delivery of each element of a batch. Its id is that of the element, which the
// signature covers like the rest of the body.
func (d *Delivery) split() ([]*Delivery, error) {
	var elements []json.RawMessage
	if err := json.Unmarshal(d.Body, &elements); err != nil {
		return nil, fmt.Errorf("receive: the batch cannot be read: %w", err)
	}
	all := make([]*Delivery, len(elements))
	for i, element := range elements {
		var is struct{ ID string }
		err := json.Unmarshal(element, &is)
		if err = errors.Join(err, checkID(is.ID)); err != nil {
			return nil, fmt.Errorf("receive: element %d of the batch: %w", i, err)
		}
		one := *d
		one.ID, one.Body = is.ID, element
		all[i] = &one
	}
	if len(all) == 0 {
		return nil, errors.New("receive: the batch is empty")
	}
	return all, nil
}

// checkID refuses ids that a column of text cannot have.
func checkID(id string) error {
	switch {
	case id == "":
		return errors.New("receive: the request has no event id")
	case len(id) > maxKey:
		return fmt.Errorf("receive: the event id has %d bytes; at most %d are allowed", len(id), maxKey)
	case !utf8.ValidString(id) || strings.ContainsFunc(id, unicode.IsControl):
		return errors.New("receive: the event id is not printable UTF-8")
	}
	return nil
}

// bid makes a bid for the key of a delivery, now.
func (k *Kit) bid(d *Delivery) Bid {
	hash := sha256.Sum256(d.Body)
	b := Bid{Key: Key{d.Source, d.ID}, BodyHash: hex.EncodeToString(hash[:]), Replay: d.Replayed}
	return k.again(b)
}

// again is a bid with a new owner and the times of now.
func (k *Kit) again(b Bid) Bid {
	b.Owner, b.Now = k.owner(), k.opt.Now()
	b.LeaseUntil, b.KeepUntil = b.Now.Add(k.opt.Timeout+margin), b.Now.Add(k.opt.Window)
	return b
}

// owner is a new random name. Without randomness two owners could have one name, so there is none.
func (k *Kit) owner() string {
	var raw [15]byte
	if _, err := io.ReadFull(k.opt.Random, raw[:]); err != nil {
		panic(fmt.Sprintf("receive: no randomness for the owner of a claim: %v", err))
	}
	return base32.StdEncoding.EncodeToString(raw[:])
}

// write answers a request, and flushes, so that the observer delays no answer.
func write(w http.ResponseWriter, res result) {
	answer, body, h := answers[res.outcome], bodies[res.outcome], w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Webhook-Outcome", string(res.outcome))
	if answer.reason == "" {
		res.after = 0
	} else if res.after == 0 {
		res.after = answer.after
	}
	if res.after > 0 {
		h.Set("Retry-After", strconv.FormatInt(int64((res.after+time.Second-1)/time.Second), 10))
	}
	w.WriteHeader(res.outcome.Status())
	_, _ = w.Write(body) // a sender that has left gets the duplicate's answer
	_ = http.NewResponseController(w).Flush()
}

func (k *Kit) observe(o Observation) {
	defer func() { _ = recover() }() // its failure is its own; the answer has been written
	k.opt.Observe(o)
}
