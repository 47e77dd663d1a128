// Package seal encrypts what a store writes, so that a copy of its files is worth nothing without
// the master key.
//
// Each tenant has a data key, and the operator's own rows have that of the empty tenant. A data key
// is in the database, wrapped by the master key, which is outside of it (Source). What a data key
// seals is bound to its row: the bytes of one row open in no other row, of no other kind and of no
// other tenant.
//
// A Sealer that is nil seals nothing, so a store without a master key writes rows in clear. It
// refuses to open a sealed row. Every Sealer opens rows in clear, so a database in clear can become
// sealed row by row.
//
// The ciphers and the form of keys are Tink's. Two things are not promised: that sealed bytes hide
// their length, and that a row is sealed because there is a master key. A program that can write to
// the database can put a row in clear there, and it is opened.
package seal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/grapnelhq/grapnel"
)

// mark is the first byte of everything sealed. No JSON and no layout of package codec begins with
// it.
const mark = 0xE5

// Is says whether bytes are sealed.
func Is(stored []byte) bool { return len(stored) > 0 && stored[0] == mark }

// Table has the data keys.
type Table interface {
	// DataKeys returns all of them.
	DataKeys(ctx context.Context) ([]DataKey, error)
	// DataKey returns that of a tenant; false: it has none.
	DataKey(ctx context.Context, tenant string) (DataKey, bool, error)
	// AddDataKey stores a tenant's first data key. If it has one, that stays.
	AddDataKey(ctx context.Context, k DataKey) error
	// WrapDataKey replaces a data key if it is still wrapped by the other master key.
	WrapDataKey(ctx context.Context, k DataKey, other string) error
}

// Sealer seals and opens. Its methods may be called at the same time.
type Sealer struct {
	source Source
	table  Table
	alone  bool // keys has all of them

	mu      sync.RWMutex
	masters masters
	keys    map[string]*cipher // by tenant
}

// New checks the master key against the data keys that a database has, before the database is
// changed. The table is used later. alone says that no other process adds data keys. Open never
// asks the table then, so a function that holds the only connection may call it. Without a source
// and without data keys there is no Sealer.
func New(ctx context.Context, source Source, has []DataKey, table Table, alone bool) (*Sealer, error) {
	if source == (Source{}) {
		if len(has) > 0 {
			return nil, errNoMaster
		}
		return nil, nil
	}
	all, err := source.read(ctx)
	if err != nil {
		return nil, err
	}
	s := &Sealer{source: source, table: table, alone: alone, masters: all, keys: map[string]*cipher{}}
	for _, k := range has {
		if s.keys[k.Tenant], err = all.unwrap(k); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Seal encrypts the bytes of a row. A tenant's first call makes its data key, durably.
func (s *Sealer) Seal(ctx context.Context, at At, plain []byte) ([]byte, error) {
	if s == nil {
		return plain, nil
	}
	key, err := s.key(ctx, at.Tenant)
	if errors.Is(err, ErrNoKey) {
		if err = s.add(ctx, at.Tenant); err == nil {
			key, err = s.load(ctx, at.Tenant)
		}
	}
	if err != nil {
		return nil, err
	}
	sealed, err := key.Encrypt(plain, at.bytes())
	if err != nil {
		return nil, err
	}
	return slices.Insert(sealed, 0, mark), nil
}

// Open returns what Seal was given for the row, and bytes in clear as they are. ErrNoKey: they were
// erased.
func (s *Sealer) Open(ctx context.Context, at At, stored []byte) ([]byte, error) {
	if !Is(stored) {
		return stored, nil
	}
	if s == nil {
		return nil, errNoMaster
	}
	key, err := s.key(ctx, at.Tenant)
	if err != nil {
		return nil, err
	}
	plain, err := key.Decrypt(stored[1:], at.bytes())
	switch {
	case err != nil && !bytes.HasPrefix(stored[1:], key.begin):
		return nil, errNoKey(at.Tenant)
	case err != nil:
		return nil, fmt.Errorf("the sealed %s %s cannot be opened: its bytes, or its place, are not those that were sealed", at.Kind, at.ID)
	}
	return plain, nil
}

// key returns the data key of a tenant.
func (s *Sealer) key(ctx context.Context, tenant string) (*cipher, error) {
	s.mu.RLock()
	key := s.keys[tenant]
	s.mu.RUnlock()
	switch {
	case key != nil:
		return key, nil
	case s.alone:
		return nil, errNoKey(tenant)
	}
	return s.load(ctx, tenant)
}

// load reads the data key of a tenant. Another process may have made it, with a master key that its
// source got later.
func (s *Sealer) load(ctx context.Context, tenant string) (key *cipher, err error) {
	s.mu.RLock()
	all := s.masters
	s.mu.RUnlock()
	k, found, err := s.table.DataKey(ctx, tenant)
	if err == nil && !found {
		err = errNoKey(tenant)
	}
	if err == nil && !all.has(k.Master) {
		all, err = s.refresh(ctx)
	}
	if err == nil {
		key, err = all.unwrap(k)
	}
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys[tenant] = key
	return key, nil
}

// add makes a tenant's data key, wrapped by the newest master key: after a rotation no node may
// wrap with the old one. If the source cannot be read, the one in memory has to do.
func (s *Sealer) add(ctx context.Context, tenant string) error {
	all, err := s.refresh(ctx)
	if err != nil {
		s.mu.RLock()
		all = s.masters
		s.mu.RUnlock()
	}
	k, err := all.fresh(tenant)
	if err != nil {
		return err
	}
	return s.table.AddDataKey(ctx, k)
}

// Forget drops the data key of a tenant from memory. Its row has been deleted, so bytes that it
// seals could not be opened after a restart.
func (s *Sealer) Forget(tenant string) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.keys, tenant)
}

// Recheck reads a tenant's data key again, and forgets it if its row was deleted, by another node
// perhaps.
func (s *Sealer) Recheck(ctx context.Context, tenant string) error {
	if s == nil {
		return nil
	}
	_, err := s.load(ctx, tenant) // it replaces a key that is another one by now
	if errors.Is(err, ErrNoKey) {
		s.Forget(tenant)
		err = nil
	}
	return err
}

func (s *Sealer) refresh(ctx context.Context) (masters, error) {
	all, err := s.source.read(ctx)
	if err == nil {
		s.mu.Lock()
		s.masters = all
		s.mu.Unlock()
	}
	return all, err
}

// Rotated is the result of a rotation.
type Rotated struct {
	Master  string // id of the master key that now wraps all data keys
	Keys    int    // data keys
	Wrapped int    // of these, by this rotation
}

// Rotate wraps all data keys with the first key of the source, which it reads again. Each is
// replaced by itself, so a rotation that was interrupted goes on when it is called again. Nothing
// that data keys have sealed changes.
func (s *Sealer) Rotate(ctx context.Context) (Rotated, error) {
	if s == nil {
		return Rotated{}, grapnel.Errorf(grapnel.CodeConflict, "the server has no master key: start it with --master-key")
	}
	all, err := s.refresh(ctx)
	if err != nil {
		return Rotated{}, err
	}
	done := Rotated{Master: all[0].id}
	has, err := s.table.DataKeys(ctx)
	for _, k := range has {
		if err != nil {
			return done, err
		}
		done.Keys++
		if k.Master == all[0].id {
			continue
		}
		var again DataKey
		if again, err = all.wrapAgain(k); err == nil {
			err = s.table.WrapDataKey(ctx, again, k.Master)
			done.Wrapped++
		}
	}
	return done, err
}
