// Package erase runs erasures: durable jobs that empty chosen events of a tenant. A job is a
// document that says how far it is, so after a crash it goes on there, perhaps on another node. The
// node that leads runs the jobs, a page at a time.
//
// Before an event is emptied its pending deliveries end, at the nodes that own their endpoints. At
// its end a job forgets what it has searched for, and is done once the store has removed the bytes
// from its files, as far as it can (store.Erasing).
//
// A job may delete a tenant as well, with all that it has (tenant.go). Beside the jobs, the content
// of delivered events is erased whose type retains none (retain.go).
package erase

import (
	"encoding/json"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/match"
	"github.com/grapnelhq/grapnel/internal/store"
)

// The kinds of the documents of jobs: those that are not done, and those that are.
const (
	kindActive = "erasing"
	kindDone   = "erasure"
)

// Prefix begins the ids of erasures.
const Prefix = "ers"

// State is how far a job is.
type State string

// The states, in their order.
const (
	Running State = "running" // rows are emptied
	Ending  State = "ending"  // nothing in the tables is left, and their files are cleared
	Done    State = "done"
)

// What a job erases, and how it finds the events.
const (
	ByKey      = "key"
	ByMetadata = "metadata"
	ByFilter   = "filter"
	ByTenant   = "tenant" // all events of the tenant, and the tenant itself
)

// Part is what a job that deletes a tenant is doing while it is Running. Any part may be repeated.
type Part string

// The parts, in their order.
const (
	Objects Part = ""      // endpoints are deleted, and once their deliveries have ended the rest of the configuration
	Rows    Part = "rows"  // the store deletes the tenant's rows, and at the end its data key
	Quiet   Part = "quiet" // nothing happens until Job.Until: what nodes had begun ends
	Again   Part = "again" // the rows that were stored meanwhile are deleted; if there were some: Quiet again
)

// Job is an erasure.
type Job struct {
	ID         string         `json:"-"`
	Revision   int64          `json:"-"` // of the document
	State      State          `json:"state"`
	Tenant     string         `json:"tenant"`
	By         string         `json:"by"`
	Selection  *Selection     `json:"selection,omitempty"` // nil once State is Ending: it may name a person
	Before     int64          `json:"before"`              // row id of the last event that was looked at; the next ones are below
	Part       Part           `json:"part,omitzero"`       // of a tenant's deletion, as the fields below
	After      int64          `json:"after,omitzero"`      // store.TenantErased.After
	Until      time.Time      `json:"until,omitzero"`
	Late       int            `json:"late,omitzero"` // rows that Again has deleted
	Counts     map[string]int `json:"counts"`
	StartedAt  time.Time      `json:"started_at"`
	StartedBy  string         `json:"started_by"`
	Reason     string         `json:"reason"`
	FinishedAt time.Time      `json:"finished_at,omitzero"`
	Remains    []string       `json:"remains,omitempty"` // where bytes may be left
}

// Selection says which events of the tenant are erased: those that meet one of these conditions.
type Selection struct {
	Key      string            `json:"key,omitempty"`
	Metadata map[string]string `json:"metadata,omitempty"` // all of these members
	Filter   string            `json:"filter,omitempty"`   // as endpoints have them
}

// by is the condition's name.
func (s *Selection) by() string {
	switch {
	case s.Key != "":
		return ByKey
	case len(s.Metadata) > 0:
		return ByMetadata
	}
	return ByFilter
}

// wants returns the condition, ready for use.
func (s *Selection) wants() (func(*grapnel.Event) (bool, error), error) {
	switch s.by() {
	case ByKey:
		return func(e *grapnel.Event) (bool, error) { return e.Key == s.Key, nil }, nil
	case ByMetadata:
		return func(e *grapnel.Event) (bool, error) {
			for name, want := range s.Metadata {
				if has, there := e.Metadata[name]; !there || has != want {
					return false, nil
				}
			}
			return true, nil
		}, nil
	}
	filter, err := match.Compile(s.Filter)
	if err != nil {
		return nil, err
	}
	return filter.Match, nil
}

func (j *Job) count(what string, n int) {
	if n > 0 {
		if j.Counts == nil {
			j.Counts = map[string]int{}
		}
		j.Counts[what] += n
	}
}

func (j *Job) document(now time.Time) (d store.Document, err error) {
	d = store.Document{Kind: kindActive, ID: j.ID, Revision: j.Revision, At: now}
	d.Body, err = json.Marshal(j)
	return d, err
}

func read(d *store.Document) (*Job, error) {
	j := &Job{ID: d.ID, Revision: d.Revision}
	return j, json.Unmarshal(d.Body, j)
}

// ordered is a job that no node has begun.
func ordered(end *grapnel.TenantEnd) *Job {
	return &Job{ID: end.Job, State: Running, Tenant: end.Tenant, By: ByTenant, StartedAt: end.At, StartedBy: end.By.Actor,
		Reason: end.By.Reason}
}
