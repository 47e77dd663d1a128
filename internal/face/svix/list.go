package svix

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	pageDefault = 50
	pageMost    = 250
)

// limit is the number of entries that the query asks for.
func (a *ask) limit() (int, error) {
	text := a.URL.Query().Get("limit")
	if text == "" {
		return pageDefault, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > pageMost {
		return 0, invalid("must be a number from 1 to 250", "query", "limit")
	}
	return n, nil
}

// truth is a parameter that is true or false.
func (a *ask) truth(name string, otherwise bool) bool {
	is, err := strconv.ParseBool(a.URL.Query().Get(name))
	if err != nil {
		return otherwise
	}
	return is
}

// listed is a parameter with several values: repeated, joined by commas, or with brackets.
func (a *ask) listed(name string) (all []string) {
	for key, values := range a.URL.Query() {
		if base, _, _ := strings.Cut(key, "["); base != name {
			continue
		}
		for _, value := range values {
			all = append(all, strings.Split(value, ",")...)
		}
	}
	return slices.DeleteFunc(all, func(s string) bool { return s == "" })
}

// span adds the times of before and after to a query of the API.
func (a *ask) span(q url.Values, from, to string) error {
	for _, p := range [][2]string{{from, "from"}, {to, "to"}} {
		text := a.URL.Query().Get(p[0])
		if text == "" {
			continue
		}
		at, err := time.Parse(time.RFC3339Nano, strings.Replace(text, " ", "+", 1)) // an offset whose plus was not escaped
		if err != nil {
			return invalid("must be a time such as 2026-01-31T12:00:00Z", "query", p[0])
		}
		q.Set(p[1], at.UTC().Format(time.RFC3339Nano))
	}
	return nil
}

// forward refuses what a list that is read from the API page by page cannot do.
func (a *ask) forward() (iterator string, err error) {
	q := a.URL.Query()
	iterator = q.Get("iterator")
	if strings.HasPrefix(iterator, "-") {
		return "", invalid("must be the iterator of an answer: this list goes forward only", "query", "iterator")
	}
	return iterator, nil
}

// window is the page of a list in memory that the query asks for. The list is sorted by id.
func window[T any](a *ask, all []T, id func(*T) string) (out page[T], err error) {
	limit, err := a.limit()
	if err != nil {
		return out, err
	}
	q := a.URL.Query()
	switch order := q.Get("order"); order {
	case "", "ascending":
	case "descending":
		slices.Reverse(all)
	default:
		return out, invalid("must be ascending or descending", "query", "order")
	}
	iterator, back := strings.CutPrefix(q.Get("iterator"), "-")
	from, to := 0, min(limit, len(all))
	if iterator != "" {
		is := slices.IndexFunc(all, func(t T) bool { return id(&t) == iterator })
		switch {
		case is < 0:
			return out, invalid("must be the iterator of an answer to the same request", "query", "iterator")
		case back:
			from, to = max(0, is-limit), is
		default:
			from, to = is+1, min(is+1+limit, len(all))
		}
	}
	out.Data = append([]T{}, all[from:to]...)
	out.Done = to == len(all)
	if back {
		out.Done = from == 0
	}
	if len(out.Data) > 0 {
		out.Iterator, out.Prev = new(id(&all[to-1])), new("-"+id(&all[from]))
	}
	return out, nil
}

// part is a page of a list of the API.
type part[T any] struct {
	Data []T     `json:"data"`
	Next *string `json:"next"`
}

// every reads all pages of a list of the API.
func every[T any](a *ask, path string, q url.Values) (all []T, err error) {
	for {
		var is part[T]
		q.Set("limit", "500")
		if err := a.read(path, q, &is); err != nil {
			return nil, err
		}
		all = append(all, is.Data...)
		if is.Next == nil {
			return all, nil
		}
		q.Set("cursor", *is.Next)
	}
}

// ahead begins iterators that are cursors of the API: a cursor may begin with the minus of Svix's
// iterators that go back.
const ahead = "c"

// gather reads a list of the API entry by entry, until a page is full. view returns nil for entries
// that are left out. An iterator is the API's cursor.
func gather[T, V any](a *ask, path string, q url.Values, view func(*T) (*V, error)) (out page[V], err error) {
	limit, err := a.limit()
	if err != nil {
		return out, err
	}
	cursor, err := a.forward()
	if err != nil {
		return out, err
	}
	out.Data, cursor = []V{}, strings.TrimPrefix(cursor, ahead)
	for {
		var is part[T]
		if cursor != "" {
			q.Set("cursor", cursor)
		}
		q.Set("limit", strconv.Itoa(limit-len(out.Data)))
		if err := a.read(path, q, &is); err != nil {
			return out, err
		}
		for i := range is.Data {
			v, err := view(&is.Data[i])
			if err != nil {
				return out, err
			}
			if v != nil {
				out.Data = append(out.Data, *v)
			}
		}
		if out.Done = is.Next == nil; !out.Done {
			out.Iterator = new(ahead + *is.Next)
		}
		if out.Done || len(out.Data) == limit || a.spent() {
			return out, nil
		}
		cursor = *is.Next
	}
}
