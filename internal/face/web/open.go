package web

import (
	"errors"
	"net/http"
	"strings"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/pass"
)

// A portal link leads to a page whose script takes the code out of the address and sends it here.
// The code stands behind the #, so no server, log or referrer gets it, and programs that fetch
// links in advance do not use it up.

// openModel is the page that a link leads to.
type openModel struct{ Post, Start string }

// opening draws that page. The link of a portal that may be framed has the origins itself, because
// no session says yet which portal it is.
func (v *visit) opening() error {
	frames := new(pass.Frames)
	if of := v.URL.Query().Get("of"); of != "" && v.web.Passes.OpenFor(pass.UseFrames, of, frames) == nil && v.now.Before(frames.Ends) {
		h := v.rw.Header()
		h.Set("Content-Security-Policy", strings.ReplaceAll(h.Get("Content-Security-Policy"), "frame-ancestors 'none'",
			"frame-ancestors "+strings.Join(frames.Origins, " ")))
		h.Del("X-Frame-Options")
	}
	v.session = nil
	s := v.bare("Opening")
	s.Model, s.Forms = openModel{v.link("/open"), v.link("/endpoints")}, v.asset("frame.js")
	return v.draw(http.StatusOK, "open.html", s)
}

// opened is what the script gets for a code.
type opened struct {
	To   string `json:"to"`             // the first page
	Pass string `json:"pass,omitempty"` // only in a frame; else it is in the cookie
}

// openPortal exchanges the code of a link for a session.
func (v *visit) openPortal() error {
	if v.readForm() != nil || v.web.foreign(v.Request) {
		return v.told(http.StatusForbidden, "The request is not from the portal's own page.")
	}
	code := v.PostForm.Get("code")
	if !pass.Is(code) || len(code) > mostCode {
		return v.told(http.StatusUnauthorized, "This is no portal link.")
	}
	caller, _ := v.web.caller(code, "", v.Request)
	made, err := caller.OpenPortal(v.Context())
	var refusal *client.Error
	switch {
	case errors.As(err, &refusal) && (refusal.Status == http.StatusUnauthorized || refusal.Status == http.StatusForbidden):
		return v.told(http.StatusUnauthorized, "The link was used before, has expired, or was withdrawn.")
	case err != nil:
		return v.told(http.StatusServiceUnavailable, "The portal cannot be opened now.")
	}
	out := opened{To: v.link("/endpoints")}
	if p, ok := v.web.Passes.Open(made.Pass, v.now); ok && p.Look.Start != "" {
		out.To = v.link(p.Look.Start)
	}
	if v.PostForm.Get("frame") != "" {
		out.Pass = made.Pass
	} else {
		v.setCookie(portalCookie, made.Pass, made.ExpiresAt.Sub(v.now))
	}
	return v.answer(http.StatusOK, out)
}

// mostCode bounds the length of a code. One with all endpoints that it can name has half of it.
const mostCode = 8 << 10

// told answers the script with a sentence.
func (v *visit) told(status int, sentence string) error {
	return v.answer(status, map[string]string{"problem": sentence})
}
