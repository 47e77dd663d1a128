package receive

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
)

// secretHeaders are never stored.
var secretHeaders = []string{"authorization", "cookie", "proxy-authorization"}

const maxError = 1000 // bytes of an error's text in a dead letter

// letter makes the dead letter of a delivery.
func (k *Kit) letter(d *Delivery, c Claim, err error) Letter {
	text := strings.ToValidUTF8(err.Error(), "�")
	if len(text) > maxError {
		text = strings.ToValidUTF8(text[:maxError], "")
	}
	return Letter{Key: Key{d.Source, d.ID}, Header: stored(d), Body: d.Body, Error: text, Deliveries: c.Deliveries,
		FirstAt: k.opt.Now(), LastAt: k.opt.Now()}
}

// stored are the headers of a delivery that may be stored.
func stored(d *Delivery) map[string]string {
	headers := map[string]string{}
	for name, values := range d.Header {
		if lower := strings.ToLower(name); !slices.Contains(secretHeaders, lower) &&
			!slices.ContainsFunc(d.secret, func(s string) bool { return strings.EqualFold(s, name) }) {
			headers[lower] = strings.ToValidUTF8(strings.Join(values, ", "), "�")
		}
	}
	return headers
}

// Replay runs the handler for a dead letter, through the same claim as a request: of two replays at
// once the second gets ErrNotDead, and so does the replay of an event that was processed since. A
// replay that fails leaves the letter with its new error.
func (e *Endpoint) Replay(ctx context.Context, id string) (Outcome, error) {
	k := e.kit
	if k.letters == nil {
		return "", errors.New("receive: the store keeps no dead letters")
	}
	key := Key{k.opt.Source, id}
	l, found, err := k.letters.Letter(ctx, key)
	if err != nil || !found {
		return "", cmpError(err, ErrNotDead)
	}
	d := &Delivery{Source: k.opt.Source, ID: id, Header: http.Header{}, Body: l.Body, Replayed: true}
	for name, value := range l.Header {
		d.Header.Set(name, value)
	}
	res := e.run(ctx, d, k.bid(d))
	if errors.Is(res.err, ErrNotDead) {
		return "", res.err
	}
	return res.outcome, errors.Join(res.err, k.letters.Replayed(ctx, key, k.opt.Now(), string(res.outcome)))
}

func cmpError(err, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}
