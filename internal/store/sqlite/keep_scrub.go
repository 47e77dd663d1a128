package sqlite

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"os"

	"github.com/grapnelhq/grapnel/internal/store/sqlite/rows"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// SQLite overwrites deleted rows. But when it rearranges the rows of a page, because it merges
// neighbours that have become nearly empty, it leaves copies of the moved rows in the unused middle
// of the page, and nothing overwrites those when the rows themselves are deleted later. So after a
// purge the unused parts of all pages that it changed are flushed with zeros.
//
// Events are only appended, so their rows move in a purge and at no other time. See scrubAll for
// others.

// changedPages are the numbers of the pages that are in a write-ahead log. Some may be there from
// times before.
func changedPages(log string) ([]int64, error) {
	const header, frameHeader = 32, 24
	f, err := os.Open(log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	seen := make(map[int64]bool)
	var pages []int64
	var number [4]byte
	for at := int64(header); ; at += frameHeader + pageSize {
		if _, err := f.ReadAt(number[:], at); errors.Is(err, io.EOF) {
			return pages, nil
		} else if err != nil {
			return nil, err
		}
		if page := int64(binary.BigEndian.Uint32(number[:])); page > 0 && !seen[page] {
			seen[page] = true
			pages = append(pages, page)
		}
	}
}

// scrubPages flushes the unused parts of some pages with zeros.
func scrubPages(t *tx, numbers []int64) error {
	pages, err := rows.One(t.conn, pagesQuery)
	if err != nil {
		return err
	}
	for _, number := range numbers {
		page, err := rows.First(t.q.readPage.Int(number), nil, func(q *sqlite3.Stmt) ([]byte, error) { return q.Bytes(0), nil })
		if err != nil {
			return err
		}
		if page != nil && treePage(page, number, pages) && scrub(page, number == 1) {
			if err := t.q.writePage.Blob(page).Int(number).Run(); err != nil {
				return err
			}
		}
	}
	return nil
}

// The first byte of a tree page, which is its type.
const (
	innerIndex = 2
	innerTable = 5
	leafIndex  = 10
	leafTable  = 13
)

// treePage says whether a page is certainly one of a table or an index, given the database's number
// of pages.
//
// The other pages that SQLite reads, overflow pages and the trunks of the list of free pages, begin
// with the number of another page, in four bytes. Its first byte is b only if the database has b <<
// 24 pages or more. So a page of a smaller database that begins with the type b is a tree page, or
// a free one that nothing is read from. In a larger database the first byte proves nothing, because
// an overflow page carries data that a publisher chose. Then the page is left as it is, including
// bytes of purged rows: type 2 is left from 256 GiB, 5 from 640 GiB, 10 from 1.25 TiB, 13 from
// 1.625 TiB.
//
// This holds because no page of the database refers to one behind its end, and because there are no
// pointer maps (auto_vacuum is off), which begin with such a byte in any database.
func treePage(page []byte, number, pages int64) bool {
	if number == 1 {
		return true // the root of the schema, behind the header of the file
	}
	switch sort := page[0]; sort {
	case innerIndex, innerTable, leafIndex, leafTable:
		return pages < int64(sort)<<24
	}
	return false
}

// scrub flushes the unused parts of a page of a table or an index with zeros, and says whether it
// changed any. A malformed page is left as it is.
//
// A page begins with a header: its type, the first free block, the number of entries, the start of
// their content. Then come pointers to the entries. Their content is at the end of the page, with
// free blocks in between: each begins with the position of the next one and its own length.
func scrub(page []byte, first bool) (changed bool) {
	start := 0
	if first {
		start = 100 // the header of the file
	}
	if len(page) != pageSize {
		return false
	}
	number := func(at int) int { return int(binary.BigEndian.Uint16(page[at:])) }
	pointers := start
	switch page[start] {
	case innerIndex, innerTable:
		pointers += 12
	case leafIndex, leafTable:
		pointers += 8
	default:
		return false
	}
	entries, content := number(start+3), number(start+5)
	end := pointers + 2*entries
	if end > content || content > pageSize {
		return false
	}
	for i := range entries {
		if at := number(pointers + 2*i); at < content || at >= pageSize {
			return false
		}
	}
	unused := [][]byte{page[end:content]}
	for at, last := number(start+1), content-1; at != 0; {
		if at <= last || at+4 > pageSize || at+number(at+2) > pageSize || number(at+2) < 4 {
			return false
		}
		unused = append(unused, page[at+4:at+number(at+2)])
		last, at = at+number(at+2)-1, number(at)
	}
	for _, part := range unused {
		for i := range part {
			changed = changed || part[i] != 0
			part[i] = 0
		}
	}
	return changed
}

// scrubPurged scrubs the pages that were changed since the log was begun.
func (s *keeper) scrubPurged(ctx context.Context) error {
	pages, err := changedPages(s.path + "-wal")
	for len(pages) > 0 && err == nil {
		n := min(s.bounds.Scrubbed, len(pages))
		err = s.write(ctx, &change{shrinks: true, do: func(t *tx) error { return scrubPages(t, pages[:n]) }})
		pages = pages[n:]
	}
	return err
}

// scrubAll scrubs every page. SQLite also leaves copies of rows behind when it splits a page for a
// new one, which may be long ago: in tables and indexes whose keys come in no order, as ids do.
// Pages are looked at on connections for reading, and only those with such bytes are written.
func (s *keeper) scrubAll(ctx context.Context) error {
	for from, pages := int64(1), int64(1); from <= pages; from += int64(s.bounds.Scrubbed) {
		var used []int64
		err := s.readFlushed(ctx, func(r *sqlite3.Conn) (err error) {
			if pages, err = rows.One(r, pagesQuery); err != nil {
				return err
			}
			for number := from; number < from+int64(s.bounds.Scrubbed) && number <= pages; number++ {
				page, err := rows.First(r.Query(readPageQuery).Int(number), nil, func(q *sqlite3.Stmt) ([]byte, error) { return q.Bytes(0), nil })
				if err != nil {
					return err
				}
				if page != nil && treePage(page, number, pages) && scrub(page, number == 1) {
					used = append(used, number)
				}
			}
			return nil
		})
		if err == nil && len(used) > 0 {
			err = s.write(ctx, &change{shrinks: true, do: func(t *tx) error { return scrubPages(t, used) }})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// pinned calls do while a snapshot is open, which keeps the log from being restarted: pages
// committed meanwhile stay in it. do writes, so the snapshot is on a connection for reading. On a
// full disk snapshot may use that of the writer, which would wait for itself then.
func (s *keeper) pinned(ctx context.Context, do func() error) error {
	return s.readFlushed(ctx, func(r *sqlite3.Conn) error {
		return rows.Together(r, func(r *sqlite3.Conn) error {
			if _, err := rows.One(r, imbalanceQuery); err != nil {
				return err
			}
			return do()
		})
	})
}
