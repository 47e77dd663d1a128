package web

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/say"
)

// keysModel is the list of API keys.
type keysModel struct {
	pager
	Verdict verdict
	Rows    []keyRow
}

// keyRow is one API key; its secret is stored nowhere.
type keyRow struct {
	ID, Name, Tenant, Scopes string
	Created                  moment
	Ends, Used               moment // not set: never
	From                     string
	Here                     bool // the key of this session
	Revoke                   string
}

func keys(v *visit) (keysModel, error) {
	m := keysModel{Verdict: verdict{Command: createKeyCommand, Acts: v.formLinks("/keys/", "new", "Create an API key")}}
	f := v.listed()
	found, err := v.client.Keys(v.Context(), f)
	if err != nil || len(found.Data) == 0 && v.unfound(&m.Verdict, "API key") {
		return m, err
	}
	admins := 0
	for i := range found.Data {
		k := &found.Data[i]
		row := keyRow{ID: k.ID, Name: k.Name, Tenant: k.Tenant, Created: v.at(k.CreatedAt), Here: k.ID == v.session.KeyID}
		row.From, row.Ends, row.Used = say.List(k.From), v.atOr(k.ExpiresAt), v.atOr(k.LastUsed)
		if row.Scopes = say.List(texts(k.Scopes)); slices.Contains(k.Scopes, grapnel.ScopeAdmin) {
			admins++
		}
		if v.mayDo("/keys/{id}/revoke") && !row.Here {
			row.Revoke = v.link("/keys/" + k.ID + "/revoke")
		}
		m.Rows = append(m.Rows, row)
	}
	m.pager = v.pager("/keys", f.Cursor, found.Next, "q", f.Search)
	here := m.here()
	m.Verdict.say(say.Many(len(m.Rows), "API key"+here, "API keys"+here)+", "+say.Count(admins)+" of them may do everything.", "",
		"A revoked key ends at once, with all sessions that signed in with it. On the command line:")
	if len(m.Rows) == 1 && here == "" {
		m.Verdict.Pieces[0].Text = "There is one API key, and it may do everything."
	}
	return m, nil
}

func revokeKey(v *visit) (string, error) {
	id := v.PathValue("id")
	if id == v.session.KeyID {
		return "", refused(http.StatusConflict, "This session uses the key.", "Sign in with another key to revoke it.")
	}
	return "The key is revoked.", v.client.DeleteKey(v.Context(), id)
}

// auditModel lists who did what.
type auditModel struct {
	pager
	Verdict verdict
	Rows    []auditEntry
}

// auditEntry is one action.
type auditEntry struct {
	At                       moment
	Verb, Actor, Thing, Href string
	Name                     string // of the thing; empty: unknown
	Reason                   string
	End                      []act // ends the actor's sessions
}

func audit(v *visit) (auditModel, error) {
	var m auditModel
	q := v.URL.Query()
	f := client.AuditFilter{Endpoint: q.Get("endpoint"), Delivery: q.Get("delivery"), Search: v.word(), Cursor: q.Get("cursor"), Limit: v.web.Bounds.Page}
	found, err := v.client.Audit(v.Context(), f)
	if err != nil || len(found.Data) == 0 && found.Next == "" && f.Cursor == "" && v.unfound(&m.Verdict, "action") {
		return m, err
	}
	seen := map[string]bool{}
	for i := range found.Data {
		a := &found.Data[i]
		r := auditEntry{At: v.at(a.At), Verb: strings.ReplaceAll(string(a.Verb), "_", " "), Actor: cmp.Or(a.ActorName, a.Actor),
			Thing: a.EndpointID, Name: a.Name, Reason: a.Reason}
		if a.DeliveryID != "" {
			r.Thing = a.DeliveryID
		}
		if to := jump(r.Thing); to != "" && v.leads(to) {
			r.Href = v.link(to)
		}
		if !seen[a.Tenant+" "+a.Actor] {
			seen[a.Tenant+" "+a.Actor] = true
			r.End = v.ending(a.Tenant, a.Actor)
		}
		m.Rows = append(m.Rows, r)
	}
	answer := "No change has been made yet."
	switch {
	case len(m.Rows) > 0:
		last := &m.Rows[0]
		answer = fmt.Sprintf("The last action: %s by %s, %s.", strings.TrimSpace(last.Verb+" "+last.Name), last.Actor, last.At.Relative())
	case found.Next != "":
		answer = "No action on this page has “" + f.Search + "”; older ones may have it."
	case f.Cursor != "":
		answer = "There are no older actions."
	}
	m.Verdict.say(answer, "", "Actions of operators and of the server itself, the newest first. Deliveries and their attempts are not among them.")
	m.pager = v.pager("/audit", f.Cursor, found.Next, "endpoint", f.Endpoint, "delivery", f.Delivery, "q", f.Search)
	return m, nil
}

// nodesModel lists the nodes on this store.
type nodesModel struct {
	Verdict verdict
	Nodes   []nodeRow
}

type nodeRow struct {
	ID, Address string
	Here        bool
	Pill        pill
	Seen        string
	Shards      string
}

var nodePills = map[string]pill{"up": {toneOK, "up"}, "draining": {toneHold, "draining"}, "silent": {toneBad, "silent"}}

func nodes(v *visit) (nodesModel, error) {
	var m nodesModel
	c, err := v.client.Cluster(v.Context())
	if err != nil {
		return m, err
	}
	silent := 0
	for i := range c.Nodes {
		n := &c.Nodes[i]
		row := nodeRow{ID: n.ID, Address: n.Address, Here: n.ID == c.Node, Pill: pillIn(nodePills, n.State), Seen: fmt.Sprintf("%.0f s ago", n.Seen),
			Shards: "–"}
		if c.Shards > 0 {
			row.Shards = fmt.Sprintf("%d of %d", n.Shards, n.Intended)
		}
		if n.State == "silent" {
			silent++
		}
		m.Nodes = append(m.Nodes, row)
	}
	switch {
	case !c.Shared:
		m.Verdict.say("This is the only node.", "", "All endpoints are its own.")
	case c.Unowned > 0:
		m.Verdict.say(say.Many(c.Unowned, "shard has", "shards have")+" no node.", toneBad,
			"Nothing is attempted for their endpoints until a node takes them.")
	case silent > 0:
		m.Verdict.say(say.Many(silent, "node is", "nodes are")+" silent.", toneWait,
			"The other nodes take over the shards once the leases have expired.")
	default:
		m.Verdict.say(say.Many(len(m.Nodes), "node shares", "nodes share")+" all "+say.Many(c.Shards, "shard", "shards")+".", "", "")
	}
	return m, nil
}
