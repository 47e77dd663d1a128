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
	now := k.opt.Now()
	return Letter{Key: Key{d.Source, d.ID}, Header: stored(d), Body: d.Body, Error: clip(err), Deliveries: c.Deliveries,
		FirstAt: now, LastAt: now}
}

// clip is the text of an error as a column takes it.
func clip(err error) string {
	text := strings.ReplaceAll(strings.ToValidUTF8(err.Error(), "�"), "\x00", "�")
	if len(text) > maxError {
		text = strings.ToValidUTF8(text[:maxError], "")
	}
	return text
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

// header are stored headers, as a request has them.
func header(stored map[string]string) http.Header {
	h := http.Header{}
	for name, value := range stored {
		h.Set(name, value)
	}
	return h
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
	if err == nil && !found {
		err = ErrNotDead
	}
	if err != nil {
		return "", err
	}
	d := &Delivery{Source: k.opt.Source, ID: id, Header: header(l.Header), Body: l.Body, Replayed: true}
	res := e.run(ctx, d, k.bid(d))
	if errors.Is(res.err, ErrNotDead) {
		return "", res.err
	}
	return res.outcome, errors.Join(res.err, k.letters.Replayed(ctx, key, k.opt.Now(), string(res.outcome)))
}
