package codec

import (
	"context"
	"encoding/base64"
	"errors"
	"strconv"
	"strings"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/seal"
)

// Payloads are sealed here, on the caller's goroutine, before they are in any file: data and
// metadata of events, captured requests, answers of receivers, and reasons of deliveries that were
// not delivered. Sealed values say that they are: by a bit of the encoding, by the number of a
// layout, or by their beginning. So a reader needs no setting, and values in clear stay readable.

// The kinds that sealed payloads are bound to. They are in databases.
const (
	sealedData     = "event data"
	sealedMetadata = "event metadata"
	sealedIntake   = "intake"
	sealedBody     = "request body"
	sealedAttempt  = "attempt"
	sealedReason   = "reason"
)

// sealFor writes the tenant before the sealed bytes, because openFor is called without it.
func (p *Packer) sealFor(ctx context.Context, at seal.At, plain []byte) ([]byte, error) {
	sealed, err := p.sealer.Seal(ctx, at, plain)
	e := encoder{b: make([]byte, 0, len(at.Tenant)+len(sealed)+2)}
	e.text(at.Tenant)
	return append(e.b, sealed...), err
}

func (p *Packer) openFor(ctx context.Context, at seal.At, b []byte) ([]byte, error) {
	d := decoder{b: b}
	if at.Tenant = d.text(); d.bad || !seal.Is(d.b) {
		return nil, ErrMangled
	}
	return p.sealer.Open(ctx, at, d.b)
}

func attemptAt(tenant string, delivery int64, number int) seal.At {
	return seal.At{Tenant: tenant, Kind: sealedAttempt, ID: strconv.FormatInt(delivery, 10) + "/" + strconv.Itoa(number)}
}

// EncodeAttempt encodes an attempt at a delivery of a tenant.
func (p *Packer) EncodeAttempt(ctx context.Context, tenant string, delivery int64, a *grapnel.Attempt) ([]byte, error) {
	if !p.seals {
		return EncodeAttempt(a), nil
	}
	var plain encoder
	encodeAnswer(&plain, a)
	encodeSides(&plain, a)
	sealed, err := p.sealFor(ctx, attemptAt(tenant, delivery, a.Number), plain.b)
	e := encoder{b: make([]byte, 0, 64+len(sealed))}
	e.b = append(e.b, attemptSealed)
	encodeCourse(&e, a)
	encodeDecided(&e, a)
	return append(e.b, sealed...), err
}

// DecodeAttempt decodes an attempt at a delivery. One whose answer cannot be opened any more is
// Erased.
func (p *Packer) DecodeAttempt(ctx context.Context, delivery int64, b []byte) (a grapnel.Attempt, err error) {
	a, flags, sealed, err := decodeAround(b)
	if err != nil || sealed == nil {
		return a, err
	}
	plain, err := p.openFor(ctx, attemptAt("", delivery, a.Number), sealed)
	if errors.Is(err, seal.ErrNoKey) {
		a.Erased = true
		return a, nil
	}
	d := decoder{b: plain}
	decodeAnswer(&d, &a)
	decodeSides(&d, &a, flags)
	if err == nil && d.bad {
		err = ErrMangled
	}
	return a, err
}

const (
	reasonSealed = "sealed:"
	reasonErased = "erased"
)

func reasonAt(tenant string, delivery int64) seal.At {
	return seal.At{Tenant: tenant, Kind: sealedReason, ID: strconv.FormatInt(delivery, 10)}
}

// SealReason returns the reason of a delivery's state as it is stored. It may quote a transform, a
// consumer or a receiver, unless the delivery was delivered.
func (p *Packer) SealReason(ctx context.Context, tenant string, delivery int64, state grapnel.Status, reason string) (string, error) {
	if !p.seals || reason == "" || state == grapnel.Delivered {
		return reason, nil
	}
	sealed, err := p.sealFor(ctx, reasonAt(tenant, delivery), []byte(reason))
	return reasonSealed + base64.RawStdEncoding.EncodeToString(sealed), err
}

// OpenReason returns a stored reason as it was given. What cannot be opened is shown as it is
// stored.
func (p *Packer) OpenReason(ctx context.Context, delivery int64, reason string) string {
	text, is := strings.CutPrefix(reason, reasonSealed)
	if !is {
		return reason
	}
	sealed, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		return reason
	}
	switch plain, err := p.openFor(ctx, reasonAt("", delivery), sealed); {
	case errors.Is(err, seal.ErrNoKey):
		return reasonErased
	case err == nil:
		return string(plain)
	}
	return reason
}
