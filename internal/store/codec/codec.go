// Package codec turns into bytes what stores keep and no query looks into: the data of events, attempts, metadata, totals, how a request came
// in, and the documents of configuration. All stores that keep anything on a disk share it, so that there is one layout to keep readable.
//
// What it wrote it can read for ever: layouts carry a number, and lists of words only grow. It knows no database. Everything it
// returns is a copy. What it does not promise: that what it reads was written by it; such bytes are ErrMangled, or what their checksum says.
package codec
