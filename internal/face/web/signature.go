package web

import (
	"cmp"
	"fmt"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/say"
)

// check computes the signature of the shown attempt again if ?check names it. It costs the server a
// transform and a few signatures, so the page alone does not ask.
func (m *deliveryModel) check(v *visit, d *client.Delivery, event *client.Event) {
	if m.Shown == nil || m.Request.Headers == nil || event != nil && event.PayloadHidden {
		return
	}
	n := m.Shown.Number
	m.CheckAt = v.link(fmt.Sprintf("/deliveries/%s?attempt=%d&check=%d", d.ID, n, n)) + "#signature"
	if v.URL.Query().Get("check") != fmt.Sprint(n) {
		return
	}
	m.Check = &signatureCheck{Attempt: n, Command: fmt.Sprintf("grapnel deliveries verify %s --attempt %d", d.ID, n)}
	is, err := v.client.Signature(v.Context(), d.ID, n)
	if err != nil { // the rest of the page is still true
		m.Check.Sentence = cmp.Or(detailOf(err), "It could not be checked now.")
		return
	}
	m.Check.Sentence = is.Sentence
	for _, s := range is.Signatures {
		m.Check.Facts = append(m.Check.Facts, fact{Name: "Sent", Value: s.Signature}, fact{Name: "Matches", Value: s.Matches})
	}
	if p := is.Signed; p != nil {
		m.Check.Facts = append(m.Check.Facts, fact{Name: "Signed", Value: fmt.Sprintf("%s.%d.BODY", p.ID, p.Timestamp)},
			fact{Name: "Body", Value: say.Many(p.BodyBytes, "byte", "bytes")}, fact{Name: "Its SHA-256", Value: p.BodySHA256})
		m.Check.Body = p.Body
		if p.BodyCut {
			m.Check.Note = "its beginning"
		}
	}
}
