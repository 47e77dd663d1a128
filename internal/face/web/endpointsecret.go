package web

import (
	"fmt"
	"net/url"
	"reflect"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/say"
)

// rotation is the request that gives an endpoint or a source a new secret, and the word that
// confirms it.
type rotation struct {
	Overlap string `json:"overlap"`
	Secret  string `json:"secret"`
	Reason  string `json:"reason" maxLength:"500"`
	Confirm string `json:"confirm" required:"true" maxLength:"100"`
}

const rotateWord = "rotate"

var (
	rotationBlank = rotating("until then every request has both signatures, so the receiver has time to change",
		input{at: "secret", label: "New secret", kind: kindSecret, sample: "whsec_…", help: "Empty: one is created"})
	sourceRotation = rotating("until then a request that the old secret verifies is accepted too",
		input{at: "secret", label: "New secret", kind: kindSecret, help: "as the provider shows it"})
)

// rotating is the form of a rotation.
func rotating(overlap string, secret input) blank {
	return blank{of: reflect.TypeFor[rotation](), rows: []input{
		{at: "overlap", label: "The old secret ends", kind: kindChoice, help: overlap}, secret,
		{at: "reason", label: "Reason", help: "for the audit"},
		{at: "confirm", label: "Type " + rotateWord + " to confirm"},
	}}
}

// rotate sends the form of a rotation.
func (v *visit) rotate(b *blank, path string, made any) error {
	in, own := v.creation(b)
	if in["confirm"] != rotateWord {
		in[unread], own = true, joined(own, wrong("confirm", "type "+rotateWord+" to confirm; nothing was changed"))
	}
	delete(in, "confirm")
	return joined(own, v.postOnce(path, in, made))
}

// overlaps are the times for which an old secret can go on signing.
var overlaps = map[string][]option{"overlap": {
	{Value: "24h", Word: "in 24 h"}, {Value: "1h", Word: "in 1 h"}, {Value: "168h", Word: "in 7 days"}, {Value: "720h", Word: "in 30 days"}, {Value: "0s", Word: "at once"},
}}

// rotateForm is the page that gives an endpoint a new secret.
func rotateForm(v *visit, e *client.Endpoint) (formModel, error) {
	m := v.formPage("Rotate the secret", v.form(&rotationBlank, nil, overlaps), "Rotate the secret",
		v.below("/endpoints", endpointName(e), e.ID, "Rotate the secret")...)
	m.Verdict.say("Give "+endpointName(e)+" a new secret.", "",
		"The new secret signs from the next request on, and is shown once. The old ones sign too until they end.")
	if n := len(e.Secrets); n > 1 {
		m.Notes = append(m.Notes, fmt.Sprintf("%s sign now. At most 5 can.", say.Many(n, "secret", "secrets")))
	}
	return m, nil
}

func rotateSecret(v *visit) (string, error) {
	at := "/endpoints/" + url.PathEscape(v.PathValue("id"))
	var e client.Endpoint
	if err := v.rotate(&rotationBlank, "/v1"+at+"/rotate-secret", &e); err != nil {
		return "", err
	}
	v.secret = &secretModel{Label: "New secret of " + endpointName(&e), Secret: e.Secret, Back: at}
	v.secret.Verdict.say("Requests are signed with the new secret now.", "", "Give it to the receiver. The old secret signs no more.")
	for i, s := range e.Secrets {
		f := fact{Name: "New secret", Value: "signs since", At: v.at(s.CreatedAt)}
		if i > 0 {
			f.Name, f.Value = "Old secret", "signs as well"
			if s.ExpiresAt != nil {
				f.Value, f.At = "signs as well; ends", v.at(*s.ExpiresAt)
				v.secret.Verdict.Next = "Give it to the receiver before the old secret ends, " + v.at(*e.Secrets[1].ExpiresAt).Relative() + "."
			}
		}
		v.secret.Facts = append(v.secret.Facts, f)
	}
	v.secret.Verdict.Acts = []act{{Label: "To the endpoint", Href: v.link(at), Main: true}, {Label: "Send a test event", Post: v.link(at + "/test")}}
	return "", nil
}

// mostPending is how many pending deliveries a page counts before it says "more than".
const mostPending = 500

// pendingOf counts the pending deliveries of an endpoint or queue, in words.
func (v *visit) pendingOf(endpoint string) (string, error) {
	found, err := v.client.Deliveries(v.Context(), client.DeliveryFilter{Endpoint: endpoint, Limit: mostPending,
		Status: []grapnel.Status{grapnel.Pending, grapnel.Held}})
	if err != nil {
		return "", err
	}
	if found.Next != "" {
		return "More than " + say.Count(mostPending) + " pending deliveries end", nil
	}
	if len(found.Data) == 0 {
		return "No delivery is pending, so none ends", nil
	}
	return say.Many(len(found.Data), "pending delivery ends", "pending deliveries end"), nil
}

// deleteEndpointForm is the page that deletes an endpoint.
func deleteEndpointForm(v *visit, e *client.Endpoint) (formModel, error) {
	pending, err := v.pendingOf(e.ID)
	if err != nil {
		return formModel{}, err
	}
	f := v.consentForm(deleteWord, "To stop deliveries for a time, pause the endpoint instead.")
	m := v.formPage("Delete "+endpointName(e), f, "Delete the endpoint",
		v.below("/endpoints", endpointName(e), e.ID, "Delete")...)
	m.Verdict.say("Delete "+endpointName(e)+"?", "",
		pending+" as dropped. Its history stays until retention deletes it. Its secrets cannot be restored.")
	return m, nil
}
