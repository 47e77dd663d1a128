package api

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/face/api/strict"
	"github.com/grapnelhq/grapnel/internal/inbound/ingress"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/sign"
	"github.com/grapnelhq/grapnel/wire"
)

func rotationRoutes() []route {
	return []route{
		{method: "POST", path: "/v1/endpoints/{id}/rotate-secret",
			scope: grapnel.ScopeManage, portal: grapnel.ScopeEndpointsWrite, handle: rotateSecret,
			name: "rotate-secret", tag: "Endpoints", summary: "Rotate an endpoint's secret",
			about: "Deliveries are signed with the new secret and, until overlap has passed, with the earlier ones. At most 5 secrets sign at once.",
			body:  optionalBody, takes: newRotation{}, gives: map[int]any{200: wire.Endpoint{}}},
		{method: "POST", path: "/v1/endpoints/{id}/reveal-secret",
			scope: grapnel.ScopeManage, portal: grapnel.ScopeSecretsReveal, handle: revealSecret,
			name: "reveal-secret", tag: "Endpoints", summary: "Show an endpoint's secret again",
			about: "Only on a server with --svix-api, whose callers expect it; 403 on others. Each answer is in the audit.",
			gives: map[int]any{200: wire.RevealedSecret{}}},
	}
}

func sourceRotationRoutes() []route {
	return []route{
		{method: "POST", path: "/v1/sources/{id}/rotate-secret", scope: grapnel.ScopeManage, handle: rotateSourceSecret,
			name: "rotate-source-secret", tag: sourceTag, summary: "Rotate a source's secret",
			about: "Requests are verified with the new secret and, until overlap has passed, with the earlier ones. At most 5 secrets are valid at once. " +
				"At a source that waits for its secret, the requests that it verifies become events, and released counts them.",
			body: jsonBody, takes: newSourceRotation{}, gives: map[int]any{200: wire.Source{}}},
	}
}

// newRotation is how a secret is rotated.
type newRotation struct {
	Overlap *string `json:"overlap,omitempty" form:"overlap" doc:"how long the earlier secrets sign: 0s to 720h; 24h if not given"`
	Secret  string  `json:"secret,omitempty" minLength:"1" form:"secret" doc:"whsec_… or whsk_…; none: a new one is created, of the kind that there is"`
	Reason  string  `json:"reason,omitempty" minLength:"1" maxLength:"500" doc:"why; kept in the audit"`
}

// Limits of rotation.
const (
	defaultOverlap = 24 * time.Hour
	mostSecrets    = 5
)

// overlapOf is how long the secrets before go on counting after a rotation.
func overlapOf(text *string) time.Duration {
	if text == nil {
		return defaultOverlap
	}
	return duration(*text)
}

// rotateSecret puts a new secret before those that there are, which go on signing for a while.
func rotateSecret(a *api, c *call) (answer, error) {
	var f strict.Faults
	in := decode[newRotation](c.body, &f)
	overlap := overlapOf(in.Overlap)
	var secret string
	edit := func(ep *grapnel.Endpoint) error {
		kind := sign.SymmetricPrefix
		if len(ep.Secrets) > 0 && strings.HasPrefix(ep.Secrets[0].Text, sign.PrivatePrefix) {
			kind = sign.PrivatePrefix
		}
		var err error
		secret, err = a.secret(in.Secret, kind, &f)
		if err := errors.Join(err, f.Err()); err != nil {
			return err
		}
		ep.Secrets, err = rotated(ep.Secrets, secret, c.now, overlap, &f)
		return errors.Join(err, f.Err())
	}
	reply := func(ep grapnel.Endpoint, secret string, h wire.Health) func(store.Put) answer {
		return func(done store.Put) answer {
			ep.Revision = done.Revision
			v := a.viewEndpoint(c, &ep, h)
			if c.mayReveal() {
				v.Secret = secret
			}
			return jsonAnswer(http.StatusOK, v)
		}
	}
	ep, err := a.pushed(c)
	if err != nil {
		return answer{}, err
	}
	// Asked before the transaction, in which nothing may wait for anything.
	health, err := a.health(c, a.Bounds.HeldMost, ep)
	if err != nil {
		return answer{}, err
	}
	once := func(ep grapnel.Endpoint) *store.Once { return withEffect(c, reply(ep, secret, health[0])) }
	if ep, err = a.change(c, (*api).pushed, in.Reason, edit, once); err != nil {
		return answer{}, err
	}
	return reply(ep, secret, health[0])(store.Put{Revision: ep.Revision}), nil
}

// revealSecret shows the newest secret, if the operator has the server do so. The audit has each
// answer.
func revealSecret(a *api, c *call) (answer, error) {
	ep, err := a.pushed(c)
	switch {
	case err != nil:
		return answer{}, err
	case !a.Reveals:
		return answer{}, grapnel.Errorf(codeForbidden, "This server shows a secret in the answer that creates it, and never again. "+
			"Rotate the secret to get a new one. With --svix-api the server shows secrets again.")
	case !c.mayReveal():
		return answer{}, grapnel.Errorf(codeForbidden, "The pass lacks the scope %q.", string(grapnel.ScopeSecretsReveal))
	}
	if err := a.History.Note(c.Context(), *c.entry(grapnel.VerbReveal, &ep, "")); err != nil {
		return answer{}, err
	}
	return jsonAnswer(http.StatusOK, wire.RevealedSecret{Secret: ep.Secrets[0].Text}), nil
}

// rotated are the secrets after a new one was put first. Those before it keep their own end if that
// is nearer.
func rotated(before []grapnel.Secret, text string, now time.Time, overlap time.Duration, f *strict.Faults) ([]grapnel.Secret, error) {
	secrets := []grapnel.Secret{{Text: text, CreatedAt: now}}
	for _, s := range before {
		if s.Text == text && s.Live(now) {
			f.Add("/secret", "is already in use")
			return before, nil
		}
		if end := now.Add(overlap); s.ExpiresAt.IsZero() || end.Before(s.ExpiresAt) {
			s.ExpiresAt = end
		}
		if s.Live(now) {
			secrets = append(secrets, s)
		}
	}
	if len(secrets) > mostSecrets {
		return nil, grapnel.Errorf(grapnel.CodeConflict,
			"%d secrets sign already. Wait until one expires, or rotate with overlap 0s.", mostSecrets)
	}
	return secrets, nil
}

// newSourceRotation is how a source's secret is rotated. The provider has made the new one, so it
// has to be given.
type newSourceRotation struct {
	Secret  string  `json:"secret" required:"true" minLength:"1" doc:"the new secret, 8 bytes or more"`
	Overlap *string `json:"overlap,omitempty" form:"overlap" doc:"how long the earlier secrets are valid: 0s to 720h; 24h if not given"`
	Reason  string  `json:"reason,omitempty" minLength:"1" maxLength:"500" doc:"why; kept in the audit"`
}

func rotateSourceSecret(a *api, c *call) (answer, error) {
	var f strict.Faults
	in := decode[newSourceRotation](c.body, &f)
	edit := func(s *grapnel.Source) error {
		var err error
		if s.Verify.Secrets, err = rotated(s.Verify.Secrets, in.Secret, c.now, overlapOf(in.Overlap), &f); err != nil {
			return err
		}
		checkSecret(s.Verify.Scheme, in.Secret, "/secret", &f)
		for _, wrong := range ingress.CheckVerify(&s.Verify) {
			pointer := "/secret"
			if !strings.HasPrefix(wrong.Field, "secret") {
				pointer = ""
			}
			f.Add(pointer, "%s", wrong.Detail)
		}
		return f.Err()
	}
	s, freed, err := a.changeSource(c, grapnel.VerbRotate, in.Reason, edit)
	return shown(s, err, a.released(c, freed))
}
