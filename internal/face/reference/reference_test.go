package reference

import (
	"encoding/json"
	"html"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const server, base = "https://hooks.acme.example/below", "/below"

var here = At{Base: base, Server: server, Try: true}

func read(t testing.TB) (*Reference, document) {
	t.Helper()
	text, err := os.ReadFile("../api/openapi.golden.json")
	if err != nil {
		t.Fatal(err)
	}
	r, err := New(text)
	if err != nil {
		t.Fatal(err)
	}
	var doc document
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	return r, doc
}

func drawn(t testing.TB, p *Page) (page, markdown string) {
	t.Helper()
	text, err := p.HTML(here)
	if err != nil {
		t.Fatal(p.Name, err)
	}
	if markdown, err = p.Markdown(here); err != nil {
		t.Fatal(p.Name, err)
	}
	return string(text), markdown
}

// TestEveryOperationIsOnOnePage: with an anchor, an example of its request if it takes one, an
// example of its answer, and a command; the page's Markdown has the same.
func TestEveryOperationIsOnOnePage(t *testing.T) {
	r, doc := read(t)
	seen := map[string]int{}
	for _, name := range slices.Sorted(maps.Keys(r.pages)) {
		p, _ := r.Page(name)
		if len(p.Operations) == 0 {
			continue
		}
		page, markdown := drawn(t, p)
		if len(page) > 160<<10 {
			t.Errorf("%s has %d bytes", name, len(page))
		}
		for _, op := range p.Operations {
			seen[op.ID]++
			if strings.Count(page, `id="`+op.ID+`"`) != 1 || !strings.Contains(markdown, "(`"+op.ID+"`)") {
				t.Errorf("%s does not have %s once", name, op.ID)
			}
			if !strings.Contains(html.UnescapeString(page), op.Curl(server)) || !strings.Contains(markdown, op.Curl(server)) {
				t.Errorf("%s has no command for %s", name, op.ID)
			}
			if len(op.Takes) > 0 && op.Request == "" && !op.Optional {
				t.Errorf("%s has no example of a request", op.ID)
			}
			if !slices.ContainsFunc(op.Answers, func(a Answer) bool { return a.Text != "" || a.Status == "204" }) {
				t.Errorf("%s has no example of an answer", op.ID)
			}
			if op.Scope != "" && len(op.Refusals) < 4 {
				t.Errorf("%s has %d kinds of problems", op.ID, len(op.Refusals))
			}
			for _, a := range op.Answers {
				if a.Text != "" && (!strings.Contains(html.UnescapeString(page), a.Text) || !strings.Contains(markdown, a.Text)) {
					t.Errorf("%s: the answer %s is not on the page", op.ID, a.Status)
				}
			}
		}
	}
	for at, methods := range doc.Paths {
		for _, op := range methods {
			if seen[op.ID] != 1 {
				t.Errorf("%s (%s) is on %d pages", op.ID, at, seen[op.ID])
			}
		}
	}
	if len(seen) < 100 {
		t.Errorf("only %d operations", len(seen))
	}
}

// word reads a shell's words, as far as commands of the reference have them.
var word = regexp.MustCompile(`'(?:[^']|'\\'')*'|"[^"]*"|\\\n|[^\s'"]+`)

// TestCommandsNameRoutes: every command is one request that the document has, with a body that is
// the example, and a key that is a variable.
func TestCommandsNameRoutes(t *testing.T) {
	r, doc := read(t)
	mux := http.NewServeMux()
	for at, methods := range doc.Paths {
		for method := range methods {
			mux.HandleFunc(strings.ToUpper(method)+" "+at, func(http.ResponseWriter, *http.Request) {})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.pages)) {
		p, _ := r.Page(name)
		for _, op := range p.Operations {
			method, body, target, keyed := http.MethodGet, "", "", false
			words := word.FindAllString(op.Curl(server), -1)
			for i := 1; i < len(words); i++ {
				plain := strings.ReplaceAll(strings.Trim(words[i], `'`), `'\''`, `'`)
				switch plain {
				case "-X", "-H", "-d":
					i++
					next := strings.ReplaceAll(strings.TrimSuffix(strings.TrimPrefix(words[i], "'"), "'"), `'\''`, `'`)
					switch plain {
					case "-X":
						method = next
					case "-d":
						body = next
					default:
						keyed = keyed || next == `"Authorization: Bearer $GRAPNEL_KEY"`
					}
				case "\\\n":
				default:
					target = plain
				}
			}
			u, err := url.Parse(target)
			if err != nil || !strings.HasPrefix(target, server+"/") {
				t.Errorf("%s asks %s: %v", op.ID, target, err)
				continue
			}
			_, pattern := mux.Handler(&http.Request{Method: method, Host: u.Host, URL: &url.URL{Path: strings.TrimPrefix(u.Path, "/below")}})
			if pattern != op.Method+" "+op.Path {
				t.Errorf("%s asks %s %s, which is %q", op.ID, method, target, pattern)
			}
			if body != op.Request || keyed != (op.Scope != "") {
				t.Errorf("%s: body %q, with key: %v", op.ID, body, keyed)
			}
		}
	}
}

// TestLinksOfTheReferenceResolve: every link of every page leads to a page with that anchor, in
// HTML and in Markdown.
func TestLinksOfTheReferenceResolve(t *testing.T) {
	r, _ := read(t)
	href, mdHref := regexp.MustCompile(`href="([^"]*)"`), regexp.MustCompile(`\]\(([^)]*)\)`)
	links, pages := map[[3]string]bool{}, map[string]string{}
	anchor := func(from, name, id string) {
		if name == "" {
			name = from
		}
		page, known := pages[name]
		if !known {
			t.Errorf("%s leads to %s, which is no page", from, name)
			return
		}
		if id != "" && !strings.Contains(page, `id="`+id+`"`) {
			t.Errorf("%s leads to %s#%s, which is not there", from, name, id)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.pages)) {
		p, _ := r.Page(name)
		page, markdown := drawn(t, p)
		pages[name] = page
		for _, found := range href.FindAllStringSubmatch(page, -1) {
			to, id, _ := strings.Cut(html.UnescapeString(found[1]), "#")
			inner, ours := strings.CutPrefix(to, base+"/docs/")
			if to != "" && !ours {
				t.Errorf("%s leads to %s", name, to)
			}
			links[[3]string{name, inner, id}] = true
		}
		for _, found := range mdHref.FindAllStringSubmatch(markdown, -1) {
			to, id, _ := strings.Cut(found[1], "#")
			inner, ours := strings.CutSuffix(path.Join(path.Dir(name), to), ".md")
			if !ours {
				t.Errorf("the Markdown of %s leads to %s", name, to)
			}
			links[[3]string{name, inner, id}] = true
		}
	}
	for l := range links {
		if l[1] != "" || l[2] != "" {
			anchor(l[0], l[1], l[2])
		}
	}
	if len(links) < 1000 {
		t.Errorf("only %d links", len(links))
	}
}

// TestProblemsAndWebhooksAreInTheReference: each code has the anchor that problems name, and each
// webhook its members and headers.
func TestProblemsAndWebhooksAreInTheReference(t *testing.T) {
	r, doc := read(t)
	p, _ := r.Page("problems")
	page, markdown := drawn(t, p)
	for _, is := range doc.Problems {
		if !strings.Contains(page, `<tr id="`+is.Code+`">`) || !strings.Contains(markdown, "`"+is.Code+"`") {
			t.Errorf("the page of problems does not have %s", is.Code)
		}
	}
	first, _ := r.Page("webhooks")
	second, _ := r.Page("operational-events")
	shown := append(slices.Clone(first.Webhooks), second.Webhooks...)
	if len(doc.Problems) < 20 || len(shown) != len(doc.Webhooks) || len(shown) < 10 {
		t.Fatalf("%d problems, %d of %d webhooks", len(doc.Problems), len(shown), len(doc.Webhooks))
	}
	for _, w := range shown {
		if w.Request == "" || len(w.Body) < 4 || (w.ID == "delivery") != (len(w.Fields) > 0) {
			t.Errorf("%s: %+v", w.ID, w)
		}
	}
}

// TestSchemasHaveAPage: with all members, and with what uses it.
func TestSchemasHaveAPage(t *testing.T) {
	r, doc := read(t)
	unused := []string{}
	for name, s := range doc.Components.Schemas {
		p, known := r.Page("schemas/" + name)
		if !known {
			t.Errorf("%s has no page", name)
			continue
		}
		page, _ := drawn(t, p)
		for member := range maps.Keys(s.Properties) {
			if !strings.Contains(page, "<code>"+member+"</code>") {
				t.Errorf("the page of %s does not have %s", name, member)
			}
		}
		if len(p.Schema.Operations)+len(p.Schema.Within) == 0 {
			unused = append(unused, name)
		}
	}
	slices.Sort(unused) // those of problems and of operational events are in no operation
	if !slices.Equal(unused, []string{"Problem", "Subject"}) {
		t.Errorf("used by nothing: %v", unused)
	}
}

// TestAddressesAreChecked: what a request says of the server's address is put into commands only if
// it is an address.
func TestAddressesAreChecked(t *testing.T) {
	r, _ := read(t)
	p, _ := r.Page("events")
	for _, bad := range []string{"http://a'; rm -rf ~; '", "http://<script>", "javascript:alert(1)", ""} {
		text, err := p.HTML(At{Server: bad})
		if err != nil || !strings.Contains(string(text), home+"/v1/events") || strings.Contains(string(text), "rm -rf") {
			t.Errorf("%q is in the page: %v", bad, err)
		}
	}
}

func BenchmarkPage(b *testing.B) {
	r, _ := read(b)
	p, _ := r.Page("deliveries")
	for b.Loop() {
		if _, err := p.HTML(here); err != nil {
			b.Fatal(err)
		}
	}
}
