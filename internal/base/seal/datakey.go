package seal

import (
	"encoding/binary"

	"github.com/grapnelhq/grapnel"
)

// At is the place that sealed bytes are bound to. A store never changes a kind: what it has sealed
// would not open any more.
type At struct{ Tenant, Kind, ID string }

func (a At) bytes() (b []byte) {
	for _, part := range []string{a.Tenant, a.Kind, a.ID} {
		b = append(binary.AppendUvarint(b, uint64(len(part))), part...)
	}
	return b
}

// DataKey is a tenant's data key as the database has it.
type DataKey struct {
	Tenant  string // empty: the operator's
	Master  string // id of the master key that wraps it
	Wrapped []byte
}

var (
	errNoMaster = grapnel.Errorf(grapnel.CodeConflict,
		"the database is sealed with a master key: start with the --master-key (GRAPNEL_MASTER_KEY) that it was sealed with")
	errWrongMaster = grapnel.Errorf(grapnel.CodeConflict,
		"--master-key: this is not the master key that the database is sealed with; nothing was changed")
)
