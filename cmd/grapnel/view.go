package main

import (
	"encoding/json"
	"slices"
	"strconv"

	"github.com/grapnelhq/grapnel/internal/face/cli"
)

// answer is an object that keeps the JSON that the server sent.
type answer interface{ JSON() json.RawMessage }

// documents are the objects of a list.
func documents(items []cli.Item) []json.RawMessage {
	data := make([]json.RawMessage, len(items))
	for i, item := range items {
		data[i] = item.JSON
	}
	return data
}

func listDocument(items []cli.Item) json.RawMessage {
	return cli.Encode(map[string]any{"data": documents(items)})
}

// single is the view of one object.
func single(name string, doc json.RawMessage, parts ...cli.Part) cli.View {
	return cli.View{JSON: doc, Items: []cli.Item{{Name: name, JSON: doc}}, Parts: parts}
}

// object is the view of one object: for people, names and values, then more parts. Names without a
// value are left out.
func object(name string, doc json.RawMessage, form [][]string, more ...cli.Part) cli.View {
	form = slices.DeleteFunc(form, func(row []string) bool { return row[1] == "" })
	return single(name, doc, append([]cli.Part{{Rows: form}}, more...)...)
}

// list is the view of several objects: an item and a row for each. doc is the JSON of all; nil: a
// list of the objects.
func list[T any](doc json.RawMessage, head []string, all []T, row func(*T) []string) cli.View {
	v := cli.View{JSON: doc}
	rows := make([][]string, len(all))
	for i := range all {
		rows[i] = row(&all[i])
		v.Items = append(v.Items, cli.Item{Name: nameIn(head, rows[i]), JSON: document(&all[i])})
	}
	if doc == nil {
		v.JSON = listDocument(v.Items)
	}
	v.Parts = []cli.Part{{Head: head, Rows: rows}}
	return v
}

// nameIn is what -o name prints of a row: its first cell, or the id behind a name.
func nameIn(head, row []string) string {
	if len(head) > 1 && head[0] == "NAME" && head[1] != "ID" {
		return row[1]
	}
	return row[0]
}

// document is an object's JSON: as the server sent it if the object keeps it.
func document(one any) json.RawMessage {
	if sent, ok := one.(answer); ok {
		return sent.JSON()
	}
	return cli.Encode(one)
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
