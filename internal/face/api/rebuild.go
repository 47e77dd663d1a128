package api

import (
	"crypto/subtle"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/send/egress"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/sign"
)

// sentAttempt is the attempt that the path names, for a caller who may see payloads.
func (a *api) sentAttempt(c *call) (*grapnel.Delivery, *grapnel.Attempt, error) {
	if !c.mayReadPayloads() {
		return nil, nil, errHidden
	}
	d, err := a.delivery(c, c.PathValue("id"))
	if err != nil {
		return nil, nil, err
	}
	i := slices.IndexFunc(d.Attempts, func(at grapnel.Attempt) bool { return strconv.Itoa(at.Number) == c.PathValue("number") })
	if i < 0 {
		return nil, nil, store.ErrNotFound("attempt")
	}
	return d, &d.Attempts[i], nil
}

const unsigned = "No request was sent in this attempt, its signature was not recorded, or it covers a batch of events."

// signaturesOf are the signatures that an attempt sent.
func signaturesOf(at *grapnel.Attempt) []string {
	for _, h := range at.RequestHeaders {
		if h.Name == sign.HeaderSignature {
			return strings.Fields(h.Value)
		}
	}
	return nil
}

// rebuild is a delivery's body, made again from the event, with the secrets to compare it by.
type rebuild struct {
	body    []byte
	secrets []grapnel.Secret
	fault   string // the reason for which there is no body
}

// rebuilt makes the body of a delivery's attempts again. It is the body that was sent, because an
// event's bytes never change and endpoints store their former shapes; signer proves it.
func (a *api) rebuilt(c *call, d *grapnel.Delivery) (is rebuild, err error) {
	ep, ok := a.Engine.Endpoint(c.scope, d.EndpointID)
	switch {
	case !ok:
		is.fault = "the endpoint was deleted, and with it its format, transform and secrets."
		return is, nil
	case ep.Channel != nil:
		is.fault = "messages to channels are not signed; the delivery shows its message."
		return is, nil
	}
	ev, _, err := a.History.Event(c.Context(), c.scope, d.Tenant, d.EventID)
	switch {
	case grapnel.CodeOf(err) == grapnel.CodeNotFound, err == nil && ev.Seq != d.EventSeq: // purged; the id may be another event's now
		is.fault = "retention has deleted the event's data."
		return is, nil
	case grapnel.CodeOf(err) == grapnel.CodeDamaged:
		is.fault = "the store has damaged bytes in the place of the event's data."
		return is, nil
	case err != nil:
		return is, err
	}
	is.secrets = ep.Secrets
	is.body, _, is.fault, err = a.bodyOf(&ep, ev, d.CreatedAt)
	return is, err
}

// bodyOf makes the body of the attempts of a delivery, which was created then, again; or it says
// why there is none.
func (a *api) bodyOf(ep *grapnel.Endpoint, ev *grapnel.Event, created time.Time) (body []byte, header http.Header, fault string, err error) {
	if ev.Erased || !ev.ErasedAt.IsZero() {
		return nil, nil, "the event was erased.", nil
	}
	if ep.ShapeAt(ev.AcceptedAt).Transform != "" {
		release, err := slot(a.simulations, "Other transforms, previews and simulations are running.")
		if err != nil {
			return nil, nil, "", err
		}
		defer release()
	}
	if body, header, err = egress.Rebuilt(ep, ev, created, a.Transform); err != nil {
		return nil, nil, fmt.Sprintf("the endpoint's transform makes no body of the event now: %s.", err), nil
	}
	return body, header, "", nil
}

// signer is the index of the newest secret that makes a signature of the attempt with the body made
// again; len(secrets): none does.
func (r *rebuild) signer(d *grapnel.Delivery, at *grapnel.Attempt, signature string) int {
	for n := range r.secrets {
		made, err := sign.Sign(d.EventID, at.StartedAt, r.body, r.secrets[n].Text)
		if err == nil && subtle.ConstantTimeCompare([]byte(signature), []byte(made)) == 1 { // on an error it signs nothing
			return n
		}
	}
	return len(r.secrets)
}

// other says that the body made again is not the one that was sent: a secret that the endpoint
// still has was in force then, and signs other bytes.
func (r *rebuild) other(at *grapnel.Attempt) bool {
	return slices.ContainsFunc(r.secrets, func(s grapnel.Secret) bool { return !s.CreatedAt.After(at.StartedAt) && s.Live(at.StartedAt) })
}
