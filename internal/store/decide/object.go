package decide

import (
	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Object is the stored state of an object of the configuration, without its content.
type Object struct {
	There    bool
	Tenant   string
	Revision int64
	Deleted  bool // marked as deleted; endpoints only
}

// Configured is a type of configuration object.
type Configured interface {
	grapnel.Endpoint | grapnel.Source | grapnel.NamedPolicy | grapnel.EventType | grapnel.Key | grapnel.AccessRecord
}

// Described is what a store knows of an object that is written, besides its content.
type Described struct {
	ID, Tenant, Name string // its name is unique within the tenant; empty: it has none
	Revision         *int64 // nil: it has none
	Free             bool   // its writer need not have read it
	Deleted          bool   // marked as deleted; endpoints only
}

// Describe returns what a store knows of an object.
func Describe[T Configured](o *T) Described {
	switch o := any(o).(type) {
	case *grapnel.Endpoint:
		d := Described{ID: o.ID, Tenant: o.Tenant, Revision: &o.Revision, Deleted: !o.DeletedAt.IsZero()}
		if o.Queue != nil && !d.Deleted {
			d.Name = o.Queue.Name
		}
		return d
	case *grapnel.Source:
		return Described{ID: o.ID, Tenant: o.Tenant, Name: o.Name, Revision: &o.Revision}
	case *grapnel.NamedPolicy:
		return Described{ID: o.ID, Tenant: o.Tenant, Name: o.Name, Revision: &o.Revision, Free: true}
	case *grapnel.EventType:
		return Described{ID: o.ID, Tenant: o.Tenant, Name: o.Name, Revision: &o.Revision}
	case *grapnel.Key:
		return Described{ID: o.ID, Tenant: o.Tenant, Free: true}
	case *grapnel.AccessRecord:
		return Described{ID: o.ID, Tenant: o.Tenant, Free: true}
	}
	panic("decide: unknown kind of configuration")
}

// Read is the revision that the object's writer has read.
func (d *Described) Read() int64 {
	if d.Free {
		return AnyRevision
	}
	return *d.Revision
}

// AnyRevision is the revision of a writer that need not have read the object.
const AnyRevision = -1 << 63

// Writable says whether a scope may write an object of a tenant over the stored one. An object
// keeps its tenant: an object with the same id of another tenant is not found.
func (o *Object) Writable(scope store.Scope, tenant, what string) error {
	if !scope.Allows(tenant) || o.There && o.Tenant != tenant {
		return store.ErrNotFound(what)
	}
	return nil
}

// Revisable says whether the object has the revision that its writer has read; 0: it is new.
func (o *Object) Revisable(read int64, what string) error {
	switch {
	case read == AnyRevision:
		return nil
	case !o.There && read != 0:
		return store.ErrNotFound(what)
	case o.Revision != read:
		return grapnel.Errorf(grapnel.CodeConflict, "the %s has changed since it was read", what)
	}
	return nil
}

// Removable says whether a scope may delete the object.
func (o *Object) Removable(scope store.Scope, what string) error {
	if !o.There || !scope.Allows(o.Tenant) {
		return store.ErrNotFound(what)
	}
	return nil
}

// Leaves says whether an endpoint may be removed, which has pending deliveries or none.
func (o *Object) Leaves(pending bool) error {
	switch {
	case !o.There:
		return store.ErrNotFound("endpoint")
	case !o.Deleted:
		return grapnel.Errorf(grapnel.CodeConflict, "the endpoint is not deleted")
	case pending:
		return grapnel.Errorf(grapnel.CodeConflict, "the endpoint has pending deliveries")
	}
	return nil
}

// Open refuses to create a delivery for an endpoint that is absent or marked as deleted. A call
// without a version of the configuration could otherwise create one after the endpoint's End, which
// would be pending for ever.
func (o *Object) Open() error {
	if !o.There || o.Deleted {
		return store.ErrNotFound("endpoint")
	}
	return nil
}

// ErrNamed refuses a name that another object of the tenant has.
func ErrNamed(what string) error {
	return grapnel.Errorf(grapnel.CodeConflict, "the name is already used by another %s", what)
}
