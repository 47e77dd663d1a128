package api

import (
	"maps"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/face/api/strict"
	"github.com/grapnelhq/grapnel/internal/send/brokers"
	"github.com/grapnelhq/grapnel/wire"
)

// viewTarget is a target without its password.
func viewTarget(t *grapnel.Target) *wire.Target {
	if t == nil {
		return nil
	}
	v := &wire.Target{Kind: t.Kind, Address: t.Address, Name: t.Name, Username: t.Username, Options: maps.Clone(t.Options)}
	if t.Password.Text != "" {
		v.Password = redacted
	}
	return v
}

// setWhere puts the URL or the target on an endpoint, or adds their faults. Values that were saved
// before are not judged again: a server that has become stricter must not stand in the way of other
// changes.
func (a *api) setWhere(c *call, ep *grapnel.Endpoint, in *wire.NewEndpoint, f *strict.Faults) {
	was := ep.Target
	if ep.Target = nil; in.Target == nil {
		switch {
		case in.URL == "":
			f.Add("/url", "is required, unless there is a target")
		case in.URL != ep.URL:
			if err := a.CheckURL(in.URL); err != nil {
				f.Add("/url", "%s", err)
			}
		}
		return
	}
	if in.URL != "" && (was != nil || in.URL != ep.URL) {
		f.Add("/url", "must not be given together with a target; set target to null to send to a URL")
	}
	for name, given := range map[string]bool{"method": in.Method != "POST", "oauth2": in.OAuth2 != nil} {
		if given {
			f.Add("/"+name, "must not be given together with a target, which gets messages")
		}
	}
	if in.Format == grapnel.FormatBatch {
		f.Add("/format", "must not be batch together with a target, which gets one event in each message")
	}
	is := a.target(c, was, in.Target, "/target", f)
	place := a.judgeTarget(was, is, f)
	if in.TLS != nil && *in.TLS != (wire.TLS{}) && !place.Secure && f.Free("/target/address") {
		f.Add("/tls", "needs a target whose address is one over TLS")
	}
	ep.Target, in.URL = is, brokers.URL(is)
}

// judgeTarget adds the faults of a target that has changed, and says where its broker is.
func (a *api) judgeTarget(was, is *grapnel.Target, f *strict.Faults) brokers.Place {
	place, faults := a.CheckTarget(is)
	if was.Same(is) || !f.Free("/target") {
		return place
	}
	for _, fault := range faults {
		f.Add("/target/"+fault.Field, "%s", fault.Detail)
	}
	return place
}

// target is a target as it is given at a place of the request, or adds its faults. was is the one
// whose password stays if the request has [redacted].
func (a *api) target(c *call, was *grapnel.Target, in *wire.Target, at string, f *strict.Faults) *grapnel.Target {
	is := &grapnel.Target{Kind: in.Kind, Address: in.Address, Name: in.Name, Username: in.Username,
		Password: grapnel.Secret{Text: in.Password}, Options: in.Options}
	if len(is.Options) == 0 {
		is.Options = nil
	}
	switch {
	case in.Password == "":
	case in.Password != redacted:
		is.Password.CreatedAt = c.now
	case was == nil || was.Password.Text == "":
		f.Add(at+"/password", "must not be %s, unless there is one", redacted)
	case was.Kind != is.Kind || was.Address != is.Address:
		f.Add(at+"/password", "must be given again, since address leads to another broker")
	default:
		is.Password = was.Password
	}
	return is
}
