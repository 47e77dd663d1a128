package web

import (
	"net/url"
	"slices"
	"strings"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/face/words"
)

// said is a verdict of package words, without things to do about it.
func said(v words.Verdict) (out verdict) {
	for _, p := range v.Pieces {
		out.Pieces = append(out.Pieces, piece(p))
	}
	out.Next = v.Next
	return out
}

// say answers with one sentence in a tone, and what follows from it.
func (v *verdict) say(sentence, tone, next string) {
	v.Pieces, v.Next = []piece{{sentence, tone}}, next
}

// offer adds a button that does something to the thing with an id, if the session may press it.
func (v *visit) offer(to *verdict, path, id string, a act) {
	if v.mayDo(path) {
		a.Post = v.link(strings.Replace(path, "{id}", url.PathEscape(id), 1))
		to.Acts = append(to.Acts, a)
	}
}

// offerPause adds the button that pauses a thing, or has a paused one go on.
func (v *visit) offerPause(to *verdict, path, id string, paused bool) {
	if paused {
		v.offer(to, path+"/resume", id, act{Label: "Resume", Key: "p", Main: true})
	} else {
		v.offer(to, path+"/pause", id, act{Label: "Pause", Key: "p"})
	}
}

// troubled are the endpoints that need eyes: the worst state first, then those that hold most.
func troubled(all []client.Endpoint) []client.Endpoint {
	found := slices.DeleteFunc(slices.Clone(all), func(e client.Endpoint) bool { return e.Health.State == grapnel.HealthHealthy })
	slices.SortStableFunc(found, func(a, b client.Endpoint) int {
		if d := words.Rank(a.Health.State) - words.Rank(b.Health.State); d != 0 {
			return d
		}
		return b.Health.Held - a.Health.Held
	})
	return found
}

// about is what the words about an endpoint need of it.
func about(e *client.Endpoint) *client.OverviewEndpoint {
	return &client.OverviewEndpoint{ID: e.ID, Tenant: e.Tenant, Description: e.Description, URL: e.URL,
		DisabledReason: e.DisabledReason, Health: e.Health}
}

func endpointName(e *client.Endpoint) string { return words.Name(about(e)) }

// remedies are the buttons for an endpoint in its state, as far as the session may press them.
func (v *visit) remedies(e *client.OverviewEndpoint) []act {
	var out verdict
	offer := func(label, verb, key string) {
		v.offer(&out, "/endpoints/{id}/"+verb, e.ID, act{Label: label, Key: key})
	}
	switch e.Health.State {
	case grapnel.HealthOpen, grapnel.HealthThrottled:
		offer("Probe now", "probe", "")
		offer("Pause", "pause", "p")
	case grapnel.HealthPaused:
		if strings.HasPrefix(e.DisabledReason, grapnel.ConsentReason) {
			offer("Ask for consent again", "consent", "")
		} else {
			offer("Resume", "resume", "p")
		}
	case grapnel.HealthDisabled:
		offer("Enable", "enable", "")
	default:
		offer("Pause", "pause", "p")
	}
	return out.Acts
}

// offerQuarantine says, where a person looks for refused requests, that they are not stored, and
// offers to store later ones.
func (v *visit) offerQuarantine(to *verdict, s *client.Source) {
	if s.OnUnverified == grapnel.RejectUnverified && s.Refusals != nil {
		to.Next += " Its refused requests are not stored. Quarantine stores those that cannot be verified and delivers none of them."
		v.offer(to, "/sources/{id}/quarantine", s.ID, act{Label: "Quarantine unverified requests"})
	}
}
