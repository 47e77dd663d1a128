package web

import (
	"html"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestTheAuditEndsSessions: people and subjects of portals have a button in the audit, once each;
// it asks the API to end their sessions.
func TestTheAuditEndsSessions(t *testing.T) {
	s := newSite(t, nil)
	s.signIn()
	s.api.edit = func(name string, answer any) any {
		if name == "audit" {
			var rows []any
			for _, actor := range []string{"portal/jane", "person/a@b.example (1)", "portal/jane", "key_1"} {
				rows = append(rows, map[string]any{"at": then, "actor": actor, "tenant": "acme", "verb": "retry"})
			}
			return map[string]any{"data": rows, "next": nil}
		}
		return answer
	}
	body := html.UnescapeString(s.ask("GET", "/audit", nil).Body.String())
	if n := strings.Count(body, "/sessions/end?tenant=acme&who=portal%2Fjane"); n != 1 || !strings.Contains(body, "who=person%2Fa%40b.example+%281%29") ||
		strings.Contains(body, "who=key_1") {
		t.Errorf("%d buttons for jane: %s", n, body)
	}
	got, token := answering(s), s.token("/audit")
	for who, want := range map[string]string{"portal/jane": "/v1/tenants/acme/portal-links", "person/kim": "/v1/sessions", "key_1": ""} {
		*got = nil
		s.ask("POST", "/sessions/end?tenant=acme&who="+who, url.Values{"token": {token}})
		if want == "" && len(*got) != 0 || want != "" && (len(*got) != 1 || (*got)[0].method != "DELETE" || (*got)[0].path != want) {
			t.Errorf("%s: the API got %v", who, *got)
		}
	}
}

// TestKeysShowTheirLastUse: in a column between creation and end; a key without one has a dash.
func TestKeysShowTheirLastUse(t *testing.T) {
	s := newSite(t, nil)
	s.api.edit = func(name string, answer any) any {
		if doc, _ := answer.(map[string]any); name == "keys" {
			doc["data"].([]any)[0].(map[string]any)["last_used_at"] = then.Add(-2 * time.Hour)
		}
		return answer
	}
	s.signIn()
	head, rows, _ := strings.Cut(s.ask("GET", "/keys", nil).Body.String(), "<tbody>")
	if !regexp.MustCompile(`>Created</th><th[^>]*>Last use</th><th[^>]*>Ends</th>`).MatchString(head) {
		t.Error("the table has no such column")
	}
	for i, want := range []string{"2 h ago", "–"} {
		row := strings.SplitAfter(rows, "</tr>")[i]
		cells := regexp.MustCompile(`<td class="num soft">(?:<time[^>]*>)?([^<]*)`).FindAllStringSubmatch(row, -1)
		if len(cells) != 3 || cells[1][1] != want || cells[2][1] != "–" {
			t.Errorf("%s has %q, want the last use %s", row, cells, want)
		}
	}
}
