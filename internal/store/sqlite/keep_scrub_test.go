package sqlite

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/grapnelhq/grapnel/internal/store/sqlite/rows"
)

// overflow is an overflow page with the number of its next page and data chosen by a publisher. To
// scrub it looks like the rest of a header without entries whose content begins at the page's end.
func overflow(next int64) []byte {
	page := bytes.Repeat([]byte("x"), pageSize)
	binary.BigEndian.PutUint32(page, uint32(next))
	page[4] = 0
	binary.BigEndian.PutUint16(page[5:], pageSize)
	return page
}

// leftover is a tree page without entries that has something in its unused part.
func leftover(sort byte) []byte {
	page := bytes.Repeat([]byte("x"), pageSize)
	page[0] = sort
	binary.BigEndian.PutUint16(page[1:], 0) // no free block
	binary.BigEndian.PutUint16(page[3:], 0) // no entry
	binary.BigEndian.PutUint16(page[5:], pageSize)
	return page
}

// TestOverflowPagesAreNotScrubbed: in a database of 2^25 pages, 256 GiB, an overflow page can look
// like a page of a tree. Scrubbing it would flush an event's data with zeros.
func TestOverflowPagesAreNotScrubbed(t *testing.T) {
	scrubbed := func(page []byte, pages int64) bool { return treePage(page, 2, pages) && scrub(page, false) }
	if page := overflow(2 << 24); !scrub(page, false) {
		t.Error("the crafted page is not one that scrub would damage")
	}
	random := rand.New(rand.NewPCG(1, 2))
	for _, sort := range []byte{innerIndex, innerTable, leafIndex, leafTable} {
		first := int64(sort) << 24 // the lowest number of a page that begins with this byte
		for _, pages := range []int64{first - 1, first, first + 1, first<<1 - 1, math.MaxUint32 - 1} {
			for _, next := range []int64{0, 1, first, first + 256, pages, random.Int64N(pages) + 1} {
				if next <= pages && scrubbed(overflow(next), pages) {
					t.Errorf("of %d pages an overflow page before page %d is scrubbed", pages, next)
				}
			}
		}
		if !scrubbed(leftover(sort), first-1) {
			t.Errorf("of %d pages one of sort %d is not scrubbed", first-1, sort)
		}
		if scrubbed(leftover(sort), first) {
			t.Errorf("of %d pages one of sort %d is scrubbed", first, sort)
		}
	}
}

// TestPageOneIsScrubbed: the header of the file is not confused with that of the page.
func TestPageOneIsScrubbed(t *testing.T) {
	page := bytes.Repeat([]byte("x"), pageSize)
	copy(page[100:], leftover(leafTable)[:8])
	if !treePage(page, 1, math.MaxUint32) || !scrub(page, true) {
		t.Fatal("page 1 is not scrubbed")
	}
	if !bytes.Equal(page[:100], bytes.Repeat([]byte("x"), 100)) || !bytes.Equal(page[108:], make([]byte, pageSize-108)) {
		t.Error("not exactly the unused part is filled with zeros")
	}
}

// TestPagesOfTheDatabase: pagesQuery counts the pages of the database, those in the log too, and
// none of them is a pointer map.
func TestPagesOfTheDatabase(t *testing.T) {
	s, _ := openNew(t)
	ask := func(query string) (n int64) {
		t.Helper()
		if err := s.write(t.Context(), &change{do: func(tx *tx) (err error) { n, err = rows.One(tx.conn, query); return err }}); err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := ask(pagesQuery)
	const more = 100
	if _, err := publish(t, s, "evt_large", more*pageSize); err != nil {
		t.Fatal(err)
	}
	if after := ask(pagesQuery); before < 10 || after < before+more {
		t.Errorf("%d pages, and %d with an event of %d pages", before, after, more)
	}
	if maps := ask("PRAGMA auto_vacuum"); maps != 0 {
		t.Errorf("auto_vacuum is %d", maps)
	}
}
