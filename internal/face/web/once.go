package web

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"net/netip"
	"time"
)

// codeLife is how long a link signs in.
const codeLife = 15 * time.Minute

// codesMost bounds the codes that were issued and not used.
const codesMost = 16

// NewCodes makes an empty set of codes.
func NewCodes() *Codes {
	return &Codes{clock: time.Now, random: rand.Reader, known: map[[32]byte]grant{}}
}

// Link issues a code for a key and returns the path that signs in with it.
func (c *Codes) Link(key string) (string, error) {
	var b [16]byte
	if _, err := io.ReadFull(c.random, b[:]); err != nil {
		return "", err
	}
	code := base64.RawURLEncoding.EncodeToString(b[:])
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.known) >= codesMost {
		clear(c.known)
	}
	c.known[sha256.Sum256([]byte(code))] = grant{key, c.clock().Add(codeLife)}
	return "/login/once?code=" + code, nil
}

// take uses a code up.
func (c *Codes) take(code string) (key string, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	sum := sha256.Sum256([]byte(code))
	g, ok := c.known[sum]
	delete(c.known, sum)
	return g.key, ok && c.clock().Before(g.ends)
}

// here says whether a request comes from this machine, to an address of this machine. The second
// refuses tunnels and names of other sites that resolve to loopback.
func here(r *http.Request) bool {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !from.Addr().Unmap().IsLoopback() {
		return false
	}
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	to, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && to.IsLoopback()
}

// loginLink draws the form of a login link.
func (v *visit) loginLink() error {
	if !here(v.Request) {
		return refused(http.StatusForbidden, "Login links work on the server's own machine only.", "Sign in with an API key.")
	}
	if v.session != nil {
		v.redirect(v.web.start())
		return nil
	}
	return v.drawAlone(http.StatusOK, "Sign in", "once.html", onceModel{v.URL.Query().Get("code")})
}

// notFromHere refuses a form that was not on the page of a link.
func notFromHere() error {
	return refused(http.StatusForbidden, "The form was not from this page.", "Open the link again; the browser has to accept cookies.")
}

// signInOnce exchanges the code for a session.
func (v *visit) signInOnce() error {
	if err := v.readForm(); err != nil {
		return err
	}
	if !here(v.Request) || !v.isOwn(v.cookie(formCookie)) {
		return notFromHere()
	}
	key, ok := v.web.Dev.Codes.take(v.PostForm.Get("code"))
	if !ok {
		return refused(http.StatusForbidden, "The link was used already, or is too old.",
			"Start grapnel dev again for a new one, or sign in at /login with the key of its key file.")
	}
	return v.enter(key, signing{Next: v.web.start()})
}

// start is the page after signing in by a link.
func (w *web) start() string {
	if w.Dev.Coach != nil {
		return coachPath
	}
	return "/"
}
