package main

import (
	"encoding/json"
	"slices"
	"strconv"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/cli"
)

func listDocument(items []cli.Item) json.RawMessage {
	data := make([]json.RawMessage, len(items))
	for i, item := range items {
		data[i] = item.JSON
	}
	return cli.Encode(map[string]any{"data": data})
}

// object is the view of one object: for people, names and values, then more parts. Names without a
// value are left out.
func object(name string, doc json.RawMessage, form [][]string, more ...cli.Part) cli.View {
	form = slices.DeleteFunc(form, func(row []string) bool { return row[1] == "" })
	return cli.View{JSON: doc, Items: []cli.Item{{Name: name, JSON: doc}}, Parts: append([]cli.Part{{Rows: form}}, more...)}
}

// page is the view of one page of a list; the first cell of a row is its name.
func page[T interface{ JSON() json.RawMessage }](p *client.Page[T], head []string, row func(T) []string) cli.View {
	v := cli.View{JSON: p.JSON()}
	rows := make([][]string, len(p.Data))
	for i, object := range p.Data {
		rows[i] = row(object)
		v.Items = append(v.Items, cli.Item{Name: rows[i][0], JSON: object.JSON()})
	}
	v.Parts = []cli.Part{{Head: head, Rows: rows}}
	if p.Next != "" {
		v.More = "for the next page: --cursor " + p.Next
	}
	return v
}

// yesNo is "yes" or "no".
func yesNo(is bool) string { return map[bool]string{true: "yes", false: "no"}[is] }

// count is a number, or the number at which counting stopped.
func count(n int, more bool) string {
	if more {
		return strconv.Itoa(n) + "+"
	}
	return strconv.Itoa(n)
}

// positive is a number; empty for 0.
func positive[N int | int64](n N) string {
	if n == 0 {
		return ""
	}
	return number(int64(n))
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

func policyName(doc json.RawMessage) string {
	var name string
	if json.Unmarshal(doc, &name) == nil {
		return name
	}
	return "(its own)"
}
