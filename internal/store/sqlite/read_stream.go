package sqlite

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/grapnelhq/grapnel/internal/store/sqlite/rows"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// stream yields row ids of events or deliveries from the newest to the oldest. It reads the next
// few from an index, so no statement stays open between two calls.
type stream struct {
	fill   func(below int64) ([]int64, error) // the next ones in falling order; none: the end
	ready  []int64
	below  int64
	bottom bool
}

// newStream yields row ids below a limit.
func newStream(below int64, fill func(below int64) ([]int64, error)) *stream {
	return &stream{below: below, fill: fill}
}

// peek returns the next number without taking it, or 0 at the end.
func (s *stream) peek() (int64, error) {
	for len(s.ready) == 0 && !s.bottom {
		var err error
		if s.ready, err = s.fill(s.below); err != nil {
			return 0, err
		}
		if s.bottom = len(s.ready) == 0; !s.bottom {
			s.below = s.ready[len(s.ready)-1]
		}
	}
	if s.bottom {
		return 0, nil
	}
	return s.ready[0], nil
}

// columnStream yields the first column of a query whose last three values are: below, from, limit.
// It reads few at first: a list of many endpoints has many streams and takes little of each.
func columnStream(r *sqlite3.Conn, b *Bounds, query string, in window, bind func(*sqlite3.Stmt)) *stream {
	most := max(b.Chunk/16, 1)
	return newStream(in.below, func(below int64) ([]int64, error) {
		defer func() { most = min(4*most, b.Chunk) }()
		q := r.Query(query)
		bind(q)
		return rows.Integers(q.Int(below).Int(in.from).Int(int64(most)))
	})
}

// blocks are the row ids in a window that an index by blocks has.
type blocks struct {
	ctx  context.Context
	in   window
	read func(block int64) ([]int64, error) // those of a block, in any order
	// upTo returns the newest block up to one that may have any, or -1. nil: each may.
	upTo func(block int64) (int64, error)
	look *look // nil: until the end
}

func (b blocks) stream() *stream {
	return newStream(b.in.below, func(below int64) ([]int64, error) {
		for block := (below - 1) >> rows.BlockBits; below > b.in.from; block-- {
			if err := b.ctx.Err(); err != nil {
				return nil, err
			}
			first := block
			if b.upTo != nil {
				var err error
				if block, err = b.upTo(block); err != nil {
					return nil, err
				}
			}
			if block < b.in.from>>rows.BlockBits {
				return nil, nil
			}
			if b.look.spent(first - block + 1) {
				return nil, gaveUp{min(below, (block+1)<<rows.BlockBits)}
			}
			numbers, err := b.read(block)
			numbers = newestFirst(numbers, window{b.in.from, below})
			if err != nil || len(numbers) > 0 {
				return numbers, err
			}
		}
		return nil, nil
	})
}

// holding finds the newest block up to one that has a value, in a window. One statement looks into
// Span blocks: that takes two thirds of the time of a statement for each. If none of them has the
// value, the block below them may.
func holding(r *sqlite3.Conn, b *Bounds, query string, value int64, in window) func(block int64) (int64, error) {
	return func(block int64) (int64, error) {
		last := max(block-int64(b.Span)+1, in.from>>rows.BlockBits)
		found, err := newestBlock(r.Query(query).Int(block).Int(last).Int(value))
		if found < 0 {
			found = last - 1
		}
		return found, err
	}
}

// newestBlock is the block that a query finds; -1: none.
func newestBlock(q *sqlite3.Stmt) (int64, error) {
	block, found, err := rows.Next(q)
	if !found {
		return -1, err
	}
	return block, nil
}

// blockQuery is a query for the newest block from ?1 down to ?2 in which a condition on ?3 holds.
func blockQuery(table, condition string) string {
	return `WITH RECURSIVE b(n) AS (SELECT ?1 UNION ALL SELECT n - 1 FROM b WHERE n > ?2)
		SELECT n FROM b WHERE EXISTS (SELECT 1 FROM ` + table + " WHERE seq >> 12 = n AND " + condition + ") LIMIT 1"
}

// having reads the row ids of a block that have one of the wanted values. For up to `most` values
// the query `one` looks each up; for more `all` reads the row ids of the block with their values.
func having(r *sqlite3.Conn, wanted []int64, most int, one, all string) func(block int64) ([]int64, error) {
	slices.Sort(wanted)
	return func(block int64) ([]int64, error) {
		if len(wanted) > most {
			return sift(r.Query(all).Int(block), wanted)
		}
		q := r.Query(one)
		return lookUpAll(wanted, func(value int64) *sqlite3.Stmt { return q.Int(block).Int(value) })
	}
}

// lookUpAll returns the row ids that a query finds for each value.
func lookUpAll[V any](values []V, query func(V) *sqlite3.Stmt) (numbers []int64, err error) {
	for _, value := range values {
		more, err := rows.Integers(query(value))
		if err != nil {
			return nil, err
		}
		numbers = append(numbers, more...)
	}
	return numbers, nil
}

// sift returns the first column of the rows whose further columns are in these sorted lists. An
// empty list has every value.
func sift(q *sqlite3.Stmt, lists ...[]int64) (numbers []int64, err error) {
	for q.More(&err) {
		fits := true
		for i, list := range lists {
			_, in := slices.BinarySearch(list, q.Integer(1+i))
			fits = fits && (in || len(list) == 0)
		}
		if fits {
			numbers = append(numbers, q.Integer(0))
		}
	}
	return numbers, err
}

// newestFirst cuts row ids to a window and sorts them.
func newestFirst(numbers []int64, in window) []int64 {
	numbers = slices.DeleteFunc(numbers, func(n int64) bool { return n >= in.below || n < in.from })
	slices.SortFunc(numbers, func(a, b int64) int { return cmp.Compare(b, a) })
	return numbers
}

// listStream yields row ids of a list in memory.
func listStream(numbers []int64, in window) *stream {
	return newStream(in.below, func(below int64) ([]int64, error) {
		return newestFirst(slices.Clone(numbers), window{in.from, below}), nil
	})
}

// window is a range of row ids: from inclusive, below exclusive.
type window struct{ from, below int64 }

// everything is the window of a list that begins with the newest (before 0) or below a row id.
func everything(before int64) window {
	if before <= 0 {
		before = math.MaxInt64
	}
	return window{below: before}
}

// stored is the range of the row ids in a table. Row ids are not used again, so the number of
// blocks before the oldest row, which Purge has emptied, grows for ever.
func stored(r *sqlite3.Conn, oldest, newest string) (window, error) {
	first, err := rows.One(r, oldest)
	if err != nil {
		return window{}, err
	}
	last, err := rows.One(r, newest)
	return window{first, last + 1}, err
}

func (w window) empty() bool { return w.from >= w.below }

func (w window) and(o window) window { return window{max(w.from, o.from), min(w.below, o.below)} }

// gaveUp is the error of a stream whose look is spent: it has yielded all its row ids from `at` on.
type gaveUp struct{ at int64 }

func (g gaveUp) Error() string { return fmt.Sprintf("sqlite: read down to row id %d", g.at) }

// merge calls yield with the row ids of all streams, the newest first and each once, until it
// returns false. If a stream gives up it yields those of the others down to there and gives up too.
func merge(ctx context.Context, streams []*stream, yield func(int64) (bool, error)) error {
	stop := gaveUp{}
	peek := func(s *stream) (int64, error) {
		n, err := s.peek()
		if at := (gaveUp{}); errors.As(err, &at) {
			stop.at = max(stop.at, at.at)
			return 0, nil
		}
		return n, err
	}
	var h streamHeap
	for _, s := range streams {
		if n, err := peek(s); err != nil {
			return err
		} else if n != 0 {
			h = append(h, s)
		}
	}
	heap.Init(&h)
	last := int64(0)
	for len(h) > 0 && h[0].ready[0] >= stop.at {
		if err := ctx.Err(); err != nil {
			return err
		}
		s := h[0]
		n := s.ready[0]
		s.ready = s.ready[1:]
		if n != last {
			if more, err := yield(n); !more || err != nil {
				return err
			}
			last = n
		}
		next, err := peek(s)
		switch {
		case err != nil:
			return err
		case next == 0:
			heap.Pop(&h)
		default:
			heap.Fix(&h, 0)
		}
	}
	if stop.at > 0 {
		return stop
	}
	return nil
}

// streamHeap has the stream with the highest row id on top. Every stream has one ready.
type streamHeap []*stream

func (h streamHeap) Len() int           { return len(h) }
func (h streamHeap) Less(i, j int) bool { return h[i].ready[0] > h[j].ready[0] }
func (h streamHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *streamHeap) Push(s any)        { *h = append(*h, s.(*stream)) }
func (h *streamHeap) Pop() any {
	last := len(*h) - 1
	s := (*h)[last]
	*h = (*h)[:last]
	return s
}
