package catalogue

import "errors"

// Units of work, of about 40 ns as in package match. They are charged before the work is done, for
// the most that it can take.
const (
	perVisit  = 5  // of comparing one value with one subschema
	perMember = 6  // of an object that is walked through
	perItem   = 1  // of an array that is walked through
	bytesPer  = 8  // of a text that is read, or of data that are decoded
	stepsPer  = 8  // characters times program size of a pattern
	perSeen   = 10 // of keeping what a subschema has seen

	perByteCompiled = 3

	slice = 100_000 // units between two steps of a meter
)

// maxStack is how many comparisons may be in progress within each other: what a schema that refers
// to itself takes of the stack.
const maxStack = 2000

// ErrTooCostly says that the units of a meter were used up before the work was finished.
var ErrTooCostly = errors.New("the schemas cost too much")

// Meter counts the work of one request. Once it has ended the work every further charge fails. It
// belongs to one goroutine.
type Meter struct {
	left   int64
	untold int64
	step   func(did int64) error
	err    error
}

// NewMeter gives a request the given units. After each slice of them step is called with the units
// used since its last call; the work goes on once it returns nil, and else ends with its error.
// step nil: the work is not interrupted.
func NewMeter(units int64, step func(did int64) error) *Meter { return &Meter{left: units, step: step} }

// Untold returns the units used since the last step.
func (m *Meter) Untold() int64 { return m.untold }

// charge takes units for work that is about to be done. false: the work must not be done.
func (m *Meter) charge(units int64) bool {
	switch {
	case m.err != nil:
		return false
	case units > m.left:
		m.err = ErrTooCostly
		return false
	}
	m.left -= units
	if m.untold += units; m.untold < slice || m.step == nil {
		return true
	}
	did := m.untold
	m.untold = 0
	m.err = m.step(did)
	return m.err == nil
}
