// Package redisstore is a store of package receive in Redis, for the mode Claim: the handler's
// effects are elsewhere, such as in a payment service.
//
//	store := redisstore.New(redis.NewClient(&redis.Options{Addr: "…"}))
//
// Each step is one Lua script, the same text as in the kits of other languages
// (sdk/conformance/redis), so programs in several languages can share the keys. A key is one hash
// at webhook:{SOURCE}:ID. Redis forgets it when its window has passed, and never before its lease;
// a dead key stays until it is replayed.
//
// It does not promise more than Redis does. Redis acknowledges a write before its replicas have it,
// and by default before it is on disk. A failover, or a crash of a server without an append-only
// file that is synced for each write, can forget a claim or that it is done: the event is then
// handled again. Give calls of other services Delivery.IdempotencyKey, or keep claims in a SQL
// database with receive.Transaction, where that must not be. A Redis that evicts keys
// (maxmemory-policy other than noeviction) forgets claims in the same way. It stores no dead
// letters: a permanent failure is answered with 422.
package redisstore

import (
	"context"
	"embed"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/grapnelhq/grapnel/receive"
)

//go:embed lua/*.lua
var files embed.FS

// script is one of lua, which is read when the program starts.
func script(name string) *redis.Script {
	text, err := files.ReadFile("lua/" + name)
	if err != nil {
		panic(err) // it is part of the binary
	}
	return redis.NewScript(string(text))
}

var (
	claim  = script("claim.lua")
	renew  = script("renew.lua")
	settle = script("settle.lua")
	// clean deletes a key that is done or free and whose window has passed.
	clean = redis.NewScript(`
local row = redis.call("HMGET", KEYS[1], "state", "keep_until")
if (row[1] == "done" or row[1] == "free") and tonumber(row[2]) < tonumber(ARGV[1]) then
  return redis.call("DEL", KEYS[1])
end
return 0`)
)

// Store keeps claims in Redis. It is a receive.Store.
type Store struct{ client redis.UniversalClient }

// New makes a store. The client stays the caller's.
func New(client redis.UniversalClient) *Store { return &Store{client} }

// at is where a key's hash is. All keys of a source are in one slot of a cluster.
func at(k receive.Key) string { return "webhook:{" + k.Source + "}:" + k.ID }

// columns are the fields of a hash that a claim has, as claim.lua returns them.
var columns = []string{"state", "owner", "generation", "lease_until", "body_hash", "outcome", "deliveries"}

// Claim makes a bid.
func (s *Store) Claim(ctx context.Context, b receive.Bid) (receive.Claim, error) {
	replay := "0"
	if b.Replay {
		replay = "1"
	}
	row, err := claim.Run(ctx, s.client, []string{at(b.Key)}, b.Owner, b.BodyHash, b.Now.UnixMilli(), b.LeaseUntil.UnixMilli(),
		b.KeepUntil.UnixMilli(), replay).Slice()
	if err != nil {
		return receive.Claim{}, fmt.Errorf("redisstore: claiming: %w", err)
	}
	return read(b.Key, row)
}

// Look returns the row of a key.
func (s *Store) Look(ctx context.Context, k receive.Key) (receive.Claim, error) {
	row, err := s.client.HMGet(ctx, at(k), columns...).Result()
	if err != nil {
		return receive.Claim{}, fmt.Errorf("redisstore: looking: %w", err)
	}
	return read(k, row)
}

// read makes a claim of the columns. No row, or none with a state, is the zero Claim.
func read(k receive.Key, row []any) (receive.Claim, error) {
	if len(row) != len(columns) || row[0] == nil {
		return receive.Claim{}, nil
	}
	texts := make([]string, len(row))
	numbers := make([]int64, len(row))
	for i, v := range row {
		texts[i], _ = v.(string)
		if name := columns[i]; name == "generation" || name == "lease_until" || name == "deliveries" {
			var err error
			if numbers[i], err = strconv.ParseInt(texts[i], 10, 64); err != nil {
				return receive.Claim{}, fmt.Errorf("redisstore: %s of %s is %q, not a number", name, at(k), texts[i])
			}
		}
	}
	return receive.Claim{
		Key: k, State: receive.State(texts[0]), Owner: texts[1], Generation: numbers[2], LeaseUntil: time.UnixMilli(numbers[3]),
		BodyHash: texts[4], Outcome: receive.Outcome(texts[5]), Deliveries: numbers[6],
	}, nil
}

// Renew moves the end of a busy claim's lease.
func (s *Store) Renew(ctx context.Context, c receive.Claim, now, until time.Time) error {
	return s.owned(ctx, renew, c, c.Owner, now.UnixMilli(), until.UnixMilli())
}

// Settle gives a busy claim its next state and outcome.
func (s *Store) Settle(ctx context.Context, c receive.Claim, to receive.State, o receive.Outcome, now time.Time) error {
	return s.owned(ctx, settle, c, c.Owner, string(to), string(o), now.UnixMilli())
}

// owned runs a script that returns 1 if the claim is its owner's.
func (s *Store) owned(ctx context.Context, script *redis.Script, c receive.Claim, args ...any) error {
	changed, err := script.Run(ctx, s.client, []string{at(c.Key)}, args...).Int()
	switch {
	case err != nil:
		return fmt.Errorf("redisstore: changing a claim: %w", err)
	case changed == 0:
		return receive.ErrLostClaim
	default:
		return nil
	}
}

// scanned is how many keys one step of Clean looks at.
const scanned = 1000

// glob escapes what a pattern of Redis would take for more than a character.
var glob = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`)

// Clean deletes keys that are done or free and no longer retained. Redis does it by itself as time
// passes, so a program does not have to call it. In a cluster it looks at one node.
func (s *Store) Clean(ctx context.Context, source string, now time.Time, limit int) (int, error) {
	deleted := 0
	keys := s.client.Scan(ctx, 0, "webhook:{"+glob.Replace(source)+"}:*", scanned).Iterator()
	for deleted < limit && keys.Next(ctx) {
		n, err := clean.Run(ctx, s.client, []string{keys.Val()}, now.UnixMilli()).Int()
		if err != nil {
			return deleted, fmt.Errorf("redisstore: cleaning: %w", err)
		}
		deleted += n
	}
	if err := keys.Err(); err != nil {
		return deleted, fmt.Errorf("redisstore: cleaning: %w", err)
	}
	return deleted, nil
}
