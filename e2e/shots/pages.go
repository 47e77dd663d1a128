//go:build linux

package main

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/grapnelhq/grapnel/internal/face/web"
)

// shot is one picture.
type shot struct {
	path               string // a row of the dashboard's pages
	size, theme, state string
}

// Two of the sizes are special.
const (
	phone = "390"
	paper = "paper" // as printed, on a sheet of A4
)

// Sizes are the widths of a desk and of a phone.
var (
	sizes  = []string{"1440", phone}
	themes = []string{"light", "dark"}
	width  = map[string]int64{"1440": 1440, phone: 390, paper: 794}
)

// States of the store. That of three nodes is shown by their page only.
const (
	empty   = "empty"
	full    = "full"
	several = "several"
)

// printed are the pages that people print.
var printed = []string{"/deliveries/{id}", "/endpoints/{id}", "/policies/{id}"}

// queries are those of some pages; {endpoints} stands for the id of one.
var queries = map[string]string{"/replays/new": "?q=status:failed+endpoint:{endpoints}", "/policies/{id}": "?outage=6h",
	"/ordering-keys/{id}": "?key=inv_0"}

// shots lists the pictures of a state, from the rows of the dashboard.
func shots(state string) (all []shot) {
	for _, pattern := range append(web.Paths(), http.MethodGet+" /login") {
		method, path, _ := strings.Cut(pattern, " ")
		if method != http.MethodGet {
			continue
		}
		for _, size := range sizes {
			for _, theme := range themes {
				if state == several && path != "/nodes" {
					continue
				}
				all = append(all, shot{path, size, theme, state})
			}
		}
		if slices.Contains(printed, path) && state == full {
			all = append(all, shot{path, paper, "light", state})
		}
	}
	return all
}

// page is the name of the page: its path, with "one" for an id.
func (s shot) page() string {
	if s.path == "/{$}" {
		return "overview"
	}
	return strings.ReplaceAll(strings.ReplaceAll(strings.TrimPrefix(s.path, "/"), "/", "-"), "{id}", "one")
}

func (s shot) name() string { return strings.Join([]string{s.page(), s.size, s.theme, s.state}, "-") }

// in is the same picture of another state.
func (s shot) in(state string) shot {
	s.state = state
	return s
}

// thing is whose id the path has; false: it has none.
func (s shot) thing() (string, bool) {
	first, _, has := strings.Cut(strings.TrimPrefix(s.path, "/"), "/{id}")
	return first, has
}

// target is the address of the page; false: the store has nothing that it could be about.
func (s shot) target(ids map[string]string) (string, bool) {
	target := strings.TrimSuffix(s.path, "{$}") + queries[s.path]
	if thing, has := s.thing(); has {
		id, found := ids[thing]
		if !found && thing == "policies" {
			id, found = "standard", true
		}
		if !found {
			return "", false
		}
		target = strings.ReplaceAll(target, "{id}", id)
	}
	for thing, id := range ids {
		target = strings.ReplaceAll(target, "{"+thing+"}", id)
	}
	return target, !strings.Contains(target, "{")
}

// committed is the directory of the pictures that are in the repository.
const committed = "docs/shots"

// shown lists the pictures that README.md and the pages in docs show, by name.
func shown(root string) (names []string, err error) {
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		return nil, err
	}
	link := regexp.MustCompile(`\]\((?:docs/)?shots/([^)]+)\.png\)`)
	for _, page := range append(pages, filepath.Join(root, "README.md")) {
		text, err := os.ReadFile(page)
		if err != nil {
			return nil, err
		}
		for _, found := range link.FindAllStringSubmatch(string(text), -1) {
			if !slices.Contains(names, found[1]) {
				names = append(names, found[1])
			}
		}
	}
	return names, nil
}
