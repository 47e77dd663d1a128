package api

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Idempotency keys. The answer of a POST that carries one is stored and given again to every
// repetition for 48 hours. Where the request changes something the engine stores the answer in the
// transaction of the change, so there is no instant at which a crash leaves the one without the
// other. Answers that changed nothing (a 422, a dry run) are stored afterwards; those to requests
// that only read are not stored at all, or a key with the scope read could fill the store. Answers
// of 500 and above are not stored, and neither is 429: the caller shall try again.
//
// Two requests with one key at the same time: the second is refused. The claims that show it are in
// memory; on another node the store's own uniqueness decides instead, and the answer that was
// stored first is given there, too.

const idempotencyHeader = "Idempotency-Key"

// onlyOnce answers a request, or gives the answer that its idempotency key got before.
func (a *api) onlyOnce(c *call, handle func(*call) (answer, error)) (answer, error) {
	name, err := idempotencyKey(c)
	if err != nil {
		return answer{}, err
	}
	if name == "" {
		return handle(c)
	}
	full := c.caller() + "/" + name
	if _, taken := a.claims.LoadOrStore(full, struct{}{}); taken {
		return answer{}, grapnel.Errorf(grapnel.CodeInFlight, "A request with this Idempotency-Key is still in progress.")
	}
	defer a.claims.Delete(full)

	token, _ := Bearer(c.Header)
	c.once = &store.Once{Key: full, Fingerprint: c.fingerprint(), Expires: c.now.Add(a.Bounds.AnswerKept), Now: c.now}
	sealer, err := newSealer(token, c.once)
	if err != nil {
		return answer{}, err
	}
	c.seal = func(ans answer) store.Answer {
		// A nonce of its own for every sealing: the engine may ask more than once, with different
		// results.
		nonce := make([]byte, sealer.NonceSize(), sealer.NonceSize()+len(ans.body)+sealer.Overhead())
		if _, err := io.ReadFull(a.Random, nonce); err != nil {
			panic("api: no randomness for a nonce: " + err.Error()) // crypto/rand never fails
		}
		return store.Answer{Fingerprint: c.once.Fingerprint, Status: ans.status,
			Body: sealer.Seal(nonce, nonce, ans.body, c.once.Fingerprint[:])}
	}

	given, err := a.Idempotency.Recall(c.Context(), full, c.now)
	if given != nil && err == nil && (c.route.scope == grapnel.ScopeManage || c.route.scope == grapnel.ScopeAdmin) {
		err = a.Engine.Confirm(c.Context()) // the node that made the change may be waiting for others, or dead
	}
	if err != nil {
		return answer{}, err
	}
	if given != nil {
		return c.again(sealer, given)
	}
	ans, err := handle(c)
	if before, ok := errors.AsType[*answeredBefore](err); ok {
		return c.again(sealer, before.answer)
	}
	stored := c.stored.Load() && err == nil
	if err != nil {
		ans = a.refuse(c, err)
	}
	if !stored && ans.status < 500 && ans.status != http.StatusTooManyRequests {
		before, err := a.remember(c, ans)
		switch {
		case grapnel.CodeOf(err) == grapnel.CodeMismatch:
			return answer{}, err
		case err != nil:
			a.Log.Error("storing an answer failed", slog.String("request_id", c.id), slog.Any("error", err))
		case before != nil && (before.Status < 400 || ans.status >= 400):
			// Another node has answered the same request meanwhile. A refusal there does not count if this
			// request has succeeded, because that may be what it was refused for.
			return c.again(sealer, before)
		}
	}
	return ans, nil
}

// idempotencyKey is the key that a request came with; empty: none. Methods other than POST are
// repeatable by themselves, and so are requests that only read. Nothing is stored for a caller
// without an API key.
func idempotencyKey(c *call) (string, error) {
	values := c.Header[idempotencyHeader]
	if c.Method != http.MethodPost || c.route.scope == grapnel.ScopeRead || len(values) == 0 || c.key.ID == "" ||
		c.pass != nil && c.pass.Opens != nil { // the code of a link is used once, whatever comes with it
		return "", nil
	}
	if looks := forms["idempotency"]; len(values) > 1 || !looks.Fits(values[0]) {
		return "", grapnel.Invalid(idempotencyHeader, "%s", looks.Must)
	}
	return values[0], nil
}

// fingerprint tells a repetition from another request.
func (c *call) fingerprint() (sum [32]byte) {
	h := sha256.New()
	for _, part := range []string{c.Method, c.URL.Path, c.URL.RawQuery, c.key.Tenant} {
		_, _ = fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	_, _ = h.Write(c.body)
	h.Sum(sum[:0])
	return sum
}

// withEffect hands the idempotency key over to the engine, which stores what answerOf makes of the
// result together with the effect. It is nil when the request has none. An engine that has nothing
// to store (an effect that is idempotent by itself) does not ask for the answer; then it is stored
// afterwards.
func withEffect[Done any](c *call, answerOf func(Done) answer) *store.Once {
	if c.once == nil {
		return nil
	}
	once := *c.once
	once.Answer = func(done any) store.Answer {
		c.stored.Store(true)
		return c.seal(answerOf(done.(Done)))
	}
	return &once
}

// answeredBefore stops a handler whose effect turned out to have happened already, on another node
// or before a lost answer.
type answeredBefore struct{ answer *store.Answer }

func (*answeredBefore) Error() string { return "answered before" }

// first is nil unless the engine found the idempotency key used.
func first(given *store.Answer) error {
	if given == nil {
		return nil
	}
	return &answeredBefore{given}
}

// answered is the answer to a call whose effect is in the store now: answerOf's, unless the engine
// found the idempotency key used.
func answered[Done any](done Done, given *store.Answer, err error, answerOf func(Done) answer) (answer, error) {
	if err == nil {
		err = first(given)
	}
	if err != nil {
		return answer{}, err
	}
	return answerOf(done), nil
}

// put has write store a thing with its entry in the audit, and answers with what reply makes of
// that.
func put[T any](c *call, write func(context.Context, store.Scope, T, store.With) (store.Put, error), is T,
	entry *grapnel.AuditEntry, reply func(store.Put) answer) (answer, error) {
	done, err := write(c.Context(), c.scope, is, store.With{Once: withEffect(c, reply), Audit: entry})
	return answered(done, done.Answer, err, reply)
}

// again gives a stored answer.
func (c *call) again(sealer cipher.AEAD, given *store.Answer) (answer, error) {
	if given.Fingerprint != c.once.Fingerprint {
		return answer{}, grapnel.Errorf(grapnel.CodeMismatch, "This Idempotency-Key was used for another request.")
	}
	n := sealer.NonceSize()
	if len(given.Body) < n {
		return answer{}, errors.New("api: a stored answer is too short")
	}
	body, err := sealer.Open(nil, given.Body[:n], given.Body[n:], given.Fingerprint[:])
	if err != nil {
		return answer{}, fmt.Errorf("api: a stored answer cannot be opened: %w", err)
	}
	return answer{status: given.Status, body: body, replayed: true}, nil
}

// remember stores the answer of a request that changed nothing, or whose change does not happen
// twice anyway. It is not given up when the caller leaves. It returns an answer that was stored
// before.
func (a *api) remember(c *call, ans answer) (before *store.Answer, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Context()), a.Bounds.RememberTime)
	defer cancel()
	once := *c.once
	once.Answer = func(any) store.Answer { return c.seal(ans) }
	return a.Idempotency.Remember(ctx, &once)
}

// newSealer makes the cipher for the answers of one idempotency key. Its key comes from the
// caller's own API key, of which the server stores only a hash. So only the caller that got an
// answer first can read a secret in it.
func newSealer(token string, once *store.Once) (cipher.AEAD, error) {
	key, err := hkdf.Key(sha256.New, []byte(token), []byte(once.Key), "grapnel stored answer", 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}
