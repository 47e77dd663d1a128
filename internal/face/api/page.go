package api

import (
	"net/url"
	"strconv"

	"github.com/grapnelhq/grapnel/internal/base/search"
	"github.com/grapnelhq/grapnel/internal/face/api/strict"
)

// list is a page of things.
type list[T any] struct {
	Data []T     `json:"data" nullable:"false"`
	Next *string `json:"next" doc:"cursor of the next page; null: this is the last"`
}

// inWire says that encode leaves a list to package wire, which writes its entries without another
// pass over them.
func (list[T]) inWire() {}

// pages answers with a page of a list. read reads at most most entries behind a position, which is
// one more than fit: then there is another page.
func pages[T, V any](c *call, read func(after string, most int) ([]T, error), position func(*T) string,
	view func([]T) ([]V, error)) (answer, error) {
	limit, after := c.query.limit(), c.position()
	if err := c.query.faults.Err(); err != nil {
		return answer{}, err
	}
	found, err := read(after, limit+1)
	if err != nil {
		return answer{}, err
	}
	var out list[V]
	if len(found) > limit {
		found = found[:limit]
		out.Next = c.cursor(position(&found[limit-1]))
	}
	out.Data, err = view(found)
	return result(out, err)
}

// entry is what a list in memory needs of a thing. search= looks into name and about, which hold
// nothing that the caller may not see: it finds out what they hold, letter by letter.
type entry struct{ id, tenant, name, about string }

// takes says whether an entry is on a page behind an id: of one tenant, and found by a word. One
// whose id is empty is on none.
func (e entry) takes(after, only string, word search.Word) bool {
	return e.id > after && (only == "" || e.tenant == only) && word.In(e.id, e.name, e.about)
}

// listed answers with a page of a list that is in memory, sorted by id; of one tenant if the query
// names one, and of the things that search= finds. An entry whose id is empty is left out.
func listed[T, V any](c *call, all []T, of func(*T) entry, view func([]T) ([]V, error)) (answer, error) {
	only, word := c.query.text("tenant"), search.NewWord(c.query.text("search"))
	return pages(c, func(after string, most int) (found []T, _ error) {
		for i := range all {
			if of(&all[i]).takes(after, only, word) {
				if found = append(found, all[i]); len(found) == most {
					break
				}
			}
		}
		return found, nil
	}, func(t *T) string { return of(t).id }, view)
}

// searchParam finds things by a word; see listed.
var searchParam = param{name: "search", form: "text", doc: "only things whose name, description or URL contains this, or whose id begins with it; " +
	"letters may be small or capital"}

// each shows the entries of a page one by one.
func each[T, V any](view func(*T) V) func([]T) ([]V, error) {
	return func(found []T) ([]V, error) {
		all := make([]V, len(found))
		for i := range found {
			all[i] = view(&found[i])
		}
		return all, nil
	}
}

// cursor makes the cursor behind which position follows.
func (c *call) cursor(position string) *string {
	return new(c.cursors.write(c.listed(), position))
}

// position is where the list shall go on; empty: at its beginning.
func (c *call) position() string {
	text := c.query.text("cursor")
	if text == "" {
		return ""
	}
	position, ok := c.cursors.read(c.listed(), text)
	if !ok {
		c.query.faults.Add("?cursor", "must be the next of an answer to the same request")
		return ""
	}
	return position
}

// number is the position in a list that is ordered by number; 0: its beginning.
func (c *call) number() int64 { return number(c.position()) }

// number reads a position that is a number. A cursor has a position that its own list wrote.
func number(position string) int64 {
	n, _ := strconv.ParseInt(position, 10, 64)
	return n
}

// listed says which list is asked for: path, filters, and the tenant who asks.
func (c *call) listed() []string {
	filter := url.Values{}
	for name, values := range c.query.values {
		if name != "cursor" && name != "limit" {
			filter[name] = values
		}
	}
	return []string{c.URL.Path, filter.Encode(), c.key.Tenant}
}

// pageOf adds the parameters of every list to those of one.
func pageOf(own ...param) []param {
	return append(own,
		param{name: "limit", bound: func(b *Bounds) strict.Form { return strict.WholeNumber(1, b.PageMost) }, doc: "how many to return at most: 1 to 500, 50 if not given"},
		param{name: "cursor", form: "cursor", doc: "next of the previous page"})
}
