package main

import (
	"slices"
	"strconv"
	"strings"

	"github.com/grapnelhq/grapnel/internal/face/cli"
	"github.com/grapnelhq/grapnel/internal/face/importer"
)

// planned is a plan in one line.
func planned(p *importer.Plan) string {
	text := strconv.Itoa(p.Count(importer.Create)) + " to create, " + strconv.Itoa(p.Count(importer.Change)) + " to change, " +
		strconv.Itoa(p.Count(importer.Same)) + " as they are"
	if n := p.Count(importer.Keep); n > 0 {
		text += ", " + strconv.Itoa(n) + " kept"
	}
	if n := p.Count(importer.Skip); n > 0 {
		text += ", " + strconv.Itoa(n) + " that cannot be carried over"
	}
	return text
}

// planView shows a plan. People see no row of an object that stays as it is without more to say.
func planView(p *importer.Plan) cli.View {
	v := cli.View{JSON: cli.Encode(p)}
	items := cli.Part{Head: []string{"ACTION", "KIND", "TENANT", "OBJECT", "ID", "HERE", "MORE"}, Rows: [][]string{}}
	lost := cli.Part{Title: "not carried over", Head: []string{"KIND", "TENANT", "ID", "PART AND REASON"}}
	for i := range p.Items {
		it := &p.Items[i]
		v.Items = append(v.Items, cli.Item{Name: it.ID, JSON: cli.Encode(it)})
		if it.Action != importer.Same || it.Why != "" {
			items.Rows = append(items.Rows, []string{state(it), string(it.Kind), it.Tenant, it.Title, it.ID, it.Here, more(it)})
		}
		for _, part := range it.Lost {
			lost.Rows = append(lost.Rows, []string{string(it.Kind), it.Tenant, it.ID, part})
		}
	}
	for _, part := range []cli.Part{items, lost} {
		if len(part.Rows) > 0 {
			v.Parts = append(v.Parts, part)
		}
	}
	return v
}

func state(it *importer.Item) string {
	switch {
	case it.Failure != "":
		return "failed"
	case it.Done:
		return string(it.Action) + "d"
	}
	return string(it.Action)
}

func more(it *importer.Item) string {
	if it.Failure != "" {
		return it.Failure
	}
	said := slices.DeleteFunc([]string{strings.Join(it.Changes, ", "), it.Why}, func(s string) bool { return s == "" })
	return strings.Join(said, "; ")
}
