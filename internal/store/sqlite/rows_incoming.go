package sqlite

import (
	"crypto/sha256"
	"encoding/binary"
	"hash/crc32"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
)

// batch is a store.Batch as passed to the writer. A nil one is none: it is never stale, and
// accepting it does nothing.
type batch struct {
	config int64
	events []incoming
}

// incoming is an event as it goes to the writer: its data, its metadata and how it came in are the
// frozen ones.
type incoming struct {
	grapnel.Event
	frozen    codec.Frozen
	known     *known
	targets   []store.Target
	notBefore time.Time
}

// keyHash is stored in the index of keys instead of the key. 0 is no key.
func keyHash(key string) int64 {
	if key == "" {
		return 0
	}
	return 1 + int64(crc32.Checksum([]byte(key), crc32.MakeTable(crc32.Castagnoli)))
}

// known is a store.Known as passed to the writer.
type known struct {
	key   knownKey
	sum   [32]byte
	until int64
}

// knownKey identifies a Known: a hash of its source and key.
type knownKey [16]byte

// prefix is the part of a key in the index: six bytes as SQLite stores them, enough that two keys
// hardly ever share it.
func (k knownKey) prefix() int64 { return int64(binary.BigEndian.Uint64(k[:]) >> 17) }

func freezeKnown(k *store.Known) *known {
	if k == nil {
		return nil
	}
	var room [128]byte
	of := append(append(room[:0], k.Source...), 0)
	hash := sha256.Sum256(append(of, k.By...))
	return &known{key: knownKey(hash[:]), sum: k.Sum, until: codec.Micros(k.Until)}
}
