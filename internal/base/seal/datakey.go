package seal

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/grapnelhq/grapnel"
)

// At is the place that sealed bytes are bound to. A store never changes a kind: what it has sealed
// would not open any more.
type At struct{ Tenant, Kind, ID string }

func (a At) bytes() []byte {
	b := make([]byte, 0, 3*binary.MaxVarintLen16+len(a.Tenant)+len(a.Kind)+len(a.ID))
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

// ErrNoKey is in the chain of the error of Open if the data key that sealed the bytes no longer
// exists: they were erased. A tenant that has a new data key since then has lost the former one all
// the same, because sealed bytes begin with the id of their key.
var ErrNoKey = errors.New("seal: the data key was destroyed")

func errNoKey(tenant string) error {
	return &grapnel.Error{Code: grapnel.CodeNotFound, Detail: fmt.Sprintf("the data key of tenant %q was deleted", tenant), Err: ErrNoKey}
}

var (
	errNoMaster = grapnel.Errorf(grapnel.CodeConflict,
		"the database is sealed with a master key: start with the --master-key (GRAPNEL_MASTER_KEY) that it was sealed with")
	errWrongMaster = grapnel.Errorf(grapnel.CodeConflict,
		"--master-key: this is not the master key that the database is sealed with; nothing was changed")
)
