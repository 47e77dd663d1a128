package web

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// linkOf is one link of a navigation: where it leads, whether it is lit, and its text.
type linkOf struct{ href, current, text string }

var (
	sideNav    = regexp.MustCompile(`(?s)<nav aria-label="Pages">.*?<details`)
	tabBar     = regexp.MustCompile(`(?s)<p class="tabs".*?</p>`)
	crumbTrail = regexp.MustCompile(`(?s)<p class="crumbs".*?</p>`)
	oneLink    = regexp.MustCompile(`(?s)<a [^>]*?href="([^"]*)"[^>]*?>(.*?)</a>`)
	ariaIs     = regexp.MustCompile(`aria-current="(\w+)"`)
	anyTag     = regexp.MustCompile(`<[^>]*>`)
)

// linksIn are the links of the first part of a page that matches.
func linksIn(part *regexp.Regexp, body string) (all []linkOf) {
	for _, found := range oneLink.FindAllStringSubmatch(part.FindString(body), -1) {
		name, _, _ := strings.Cut(found[2], "<b")
		l := linkOf{href: found[1], text: strings.TrimSpace(anyTag.ReplaceAllString(name, ""))}
		if is := ariaIs.FindStringSubmatch(strings.SplitAfter(found[0], ">")[0]); is != nil {
			l.current = is[1]
		}
		all = append(all, l)
	}
	return all
}

// navPlaces are the pages that entries and tabs lead to, by the name that pages have for them.
func navPlaces() map[string]string {
	all := map[string]string{}
	for _, e := range append(navigation(), coachEntry()) {
		if len(e.Tabs) == 0 {
			all[e.Name] = e.Path
		}
		for i, tab := range e.Tabs {
			all[tab.Name] = tab.Path
			if i == 0 {
				all[e.Name] = tab.Path
			}
		}
	}
	return all
}

// TestEveryPageIsTwoClicksAway: from any page, an entry and then a tab lead to every page of the
// navigation; the list of shortcuts and the phone's More have all of them too.
func TestEveryPageIsTwoClicksAway(t *testing.T) {
	s := newSite(t, nil)
	s.signIn()
	reached := map[string]bool{}
	body := s.ask("GET", "/queues", nil).Body.String()
	for _, entry := range linksIn(sideNav, body) {
		reached[entry.href] = true
		for _, tab := range linksIn(tabBar, s.ask("GET", entry.href, nil).Body.String()) {
			reached[tab.href] = true
		}
	}
	more, shortcuts, found := strings.Cut(body, `<dialog id="keys">`)
	if !found {
		t.Fatal("there is no list of shortcuts")
	}
	_, more, _ = strings.Cut(more, `<div class="others">`)
	for _, path := range navPlaces() {
		if !reached[path] {
			t.Errorf("%s is more than two clicks away", path)
		}
		if !strings.Contains(shortcuts, `href="`+path+`" data-go=`) {
			t.Errorf("the shortcuts do not lead to %s", path)
		}
	}
	for _, e := range append(navigation(), coachEntry()) {
		for _, tab := range e.Tabs {
			if e.Deep && !strings.Contains(more, `href="`+tab.Path+`"`) {
				t.Errorf("More does not lead to %s", tab.Path)
			}
		}
	}
}

// TestEachPageLightsItsPlace: on every page one entry is lit, the one that the page belongs to; it
// is the current page if it leads there. The same holds for its tabs, which stand on their own
// pages only.
func TestEachPageLightsItsPlace(t *testing.T) {
	s := newSite(t, nil)
	s.signIn()
	rows, of := append(pages(), coachPages()...), navPlaces()
	for i, target := range targets() {
		p := &rows[i]
		body := s.ask("GET", target, nil).Body.String()
		lights := slices.DeleteFunc(linksIn(sideNav, body), func(l linkOf) bool { return l.current == "" })
		section := slices.IndexFunc(append(navigation(), coachEntry()), func(e entry) bool {
			return e.Name == p.nav || slices.ContainsFunc(e.Tabs, func(tab entry) bool { return tab.Name == p.nav })
		})
		if section < 0 || len(lights) != 1 || lights[0].text != append(navigation(), coachEntry())[section].Name {
			t.Errorf("%s: lit are %v", target, lights)
			continue
		}
		e := append(navigation(), coachEntry())[section]
		want := "true"
		if lights[0].href == target {
			want = "page"
		}
		if lights[0].current != want {
			t.Errorf("%s: the entry %s is aria-current=%s, not %s", target, e.Name, lights[0].current, want)
		}
		tabs := linksIn(tabBar, body)
		if isTab := of[p.nav] == target && len(e.Tabs) > 0; isTab != (len(tabs) > 0) {
			t.Errorf("%s has %d tabs", target, len(tabs))
		}
		for _, tab := range tabs {
			if (tab.current == "page") != (tab.href == target) || tab.current != "" && tab.href != target {
				t.Errorf("%s: the tab %s is aria-current=%q", target, tab.href, tab.current)
			}
		}
	}
}

// TestTheWayToAPageIsTrue: each page that the navigation does not lead to says how it is reached.
// The steps begin with the entry that is lit, each leads to a page that answers, and the last one,
// the page itself, is no link.
func TestTheWayToAPageIsTrue(t *testing.T) {
	s := newSite(t, nil)
	s.signIn()
	rows, of := append(pages(), coachPages()...), navPlaces()
	for i, target := range targets() {
		body := s.ask("GET", target, nil).Body.String()
		trail := crumbTrail.FindString(body)
		if leads := of[rows[i].nav] == target; leads != (trail == "") {
			t.Errorf("%s: the way is %q", target, trail)
		}
		if trail == "" {
			continue
		}
		steps := linksIn(crumbTrail, body)
		if len(steps) == 0 || !strings.HasSuffix(trail, "</span></p>") {
			t.Errorf("%s: the way is %q", target, trail)
			continue
		}
		lights := slices.DeleteFunc(linksIn(sideNav, body), func(l linkOf) bool { return l.current == "" })
		if len(lights) != 1 || steps[0].text != lights[0].text || steps[0].href != lights[0].href {
			t.Errorf("%s: the way begins with %v, lit is %v", target, steps[0], lights)
		}
		if last := steps[len(steps)-1]; len(steps) > 1 && strings.Count(target, "/") == 2 && !strings.Contains(last.href, of[rows[i].nav]) {
			t.Errorf("%s: above it is %s, not %s", target, last.href, of[rows[i].nav])
		}
		for _, step := range steps {
			if w := s.ask("GET", step.href, nil); w.Code != http.StatusOK || step.href == target {
				t.Errorf("%s: the step %s to %s answers %d", target, step.text, step.href, w.Code)
			}
		}
	}
}

// TestAddressesStay: pages that once were entries answer at their old addresses, queries included.
func TestAddressesStay(t *testing.T) {
	s := newSite(t, nil)
	s.signIn()
	for _, address := range []string{"/", "/deliveries?q=status:failed", "/endpoints", "/dead-letters?q=reason:exhausted", "/ordering-keys?endpoint=ep_1",
		"/replays?active=1", "/events?q=type:a", "/issues?state=resolved", "/alerts?state=firing", "/channels", "/stats?by=type", "/slo", "/sources", "/inbox?source=src_1",
		"/queues", "/event-types", "/policies", "/playground", "/keys", "/audit?endpoint=ep_1", "/nodes", "/settings"} {
		if w := s.ask("GET", address, nil); w.Code != http.StatusOK {
			t.Errorf("%s: answered %d", address, w.Code)
		}
	}
}

// TestEntriesOfASmallKey: an entry leads to the first of its tabs that the session may see; without
// any it is left out.
func TestEntriesOfASmallKey(t *testing.T) {
	s := newSite(t, nil)
	s.api.edit = func(name string, answer any) any {
		if name == "whoami" {
			answer.(map[string]any)["scopes"] = []string{"read"}
		}
		return answer
	}
	s.signIn()
	for _, l := range linksIn(sideNav, s.ask("GET", "/", nil).Body.String()) {
		if l.text == "Settings" && l.href != "/audit" {
			t.Errorf("Settings leads to %s", l.href)
		}
		if w := s.ask("GET", l.href, nil); w.Code != http.StatusOK {
			t.Errorf("%s leads to %s, which answers %d", l.text, l.href, w.Code)
		}
	}
}
