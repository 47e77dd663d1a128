package web

import (
	"reflect"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/wire"
)

var keyBlank = blank{of: reflect.TypeFor[wire.NewKey](), rows: []input{
	{at: "name", label: "Name", sample: "ci", help: "what the key is for; the audit shows it"},
	{at: "tenant", label: "Tenant", owner: true, sample: "all tenants", help: "the only tenant that it sees. Empty: all of them"},
	{at: "expires_at", label: "Ends", sample: "90d", help: "a duration such as 90d, a date, or never. Empty: a year from now"},
	{at: "from", label: "From", sample: "10.0.0.0/8", help: "addresses and ranges that may use it. Empty: all"},
	{at: "scopes", label: "It may", help: "publish: publish events. read: see everything. manage: change endpoints, policies, sources and queues. " +
		"replay: retry, skip and replay. consume: lease messages of queues. admin: all of it, keys and nodes."},
}}

var newKey = adding(&keyBlank, "Create the key", "What should the key do?",
	"The key is shown once, after this. Give it no more than it needs: a program that publishes needs publish and nothing else.")

func addKey(v *visit) (string, error) {
	var made client.Key
	if err := v.create(&keyBlank, "/v1/keys", &made); err != nil {
		return "", err
	}
	v.secret = &secretModel{Label: "API key", Secret: made.Secret, Back: "/keys"}
	v.secret.Verdict.say("The key "+made.Name+" works now.", "",
		"Copy it. Only its hash is stored, so it cannot be shown again; a lost key is revoked and replaced.")
	v.secret.Commands = []ownLine{{"For the command line:", "export GRAPNEL_SERVER=" + shellQuote(v.place.URL("")) + " GRAPNEL_KEY=…"}}
	v.secret.Verdict.Acts = []act{{Label: "To the keys", Href: v.link("/keys"), Main: true}}
	return "", nil
}
