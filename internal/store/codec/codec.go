// Package codec encodes the stored values that no query reads: the data of events, attempts,
// metadata, totals, intakes, and the documents of configuration. All stores on disk share it, so
// that one layout has to stay readable.
//
// It can decode everything it ever encoded: layouts carry a number, and lists of words only grow.
// It knows no database. Everything it returns is a copy. It does not promise that the bytes it
// decodes come from it: other bytes give ErrMangled, or a checksum that does not match.
package codec
