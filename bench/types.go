package main

import (
	"io"
	"time"

	"github.com/grapnelhq/grapnel/internal/store/postgres/pgtest"
)

// dashboard is the measurement of the dashboard: how long each page takes with many deliveries in
// the store, how large it is, and what open pages cost the deliveries.
//
//	go run ./bench dashboard -n 10000000 -dir /var/tmp/world -fail
//	go run ./bench dashboard -n 10000000 -dir /var/tmp/world -live 20 -fail
//	go run ./bench dashboard -n 10000000 -dir /var/tmp/world -endpoints 10000 -typing -fail
type dashboard struct {
	world
	settings
	times       int
	live        int
	typing      bool
	fail        bool
	fillOnly    bool
	only        string
	within      time.Duration
	page, asset int
	least       float64
}

// settings are the flags.
type settings struct {
	publishers int
	workers    int
	endpoints  int
	size       int
	keys       int
	batch      int
	rounds     int
	warm       time.Duration
	window     time.Duration
	rate       int
	open       time.Duration
	rest       time.Duration
	dir        string
	binary     string
	postgres   bool
	silent     bool
	sealed     bool
	ingest     bool
	together   bool
	pause      time.Duration
	flags      []string // of the server
}

// side is one of the two compared servers.
type side struct {
	name string
	addr string
	path string // of a source; empty: the API
	cpu  func() (time.Duration, error)
	disk func() (int64, error) // bytes that it has written to devices; nil: none

	windows []window
	took    [][]time.Duration // sorted, of each latency window
	steady  []float64         // processor seconds for 1,000 events, the database's included
}

// window is one throughput measurement.
type window struct {
	delivered, accepted  float64 // per second; with -ingest both are accepted requests
	own, publisher, sink float64 // cores used
	database             float64 // cores used by it
	others               float64 // cores used by other programs on the machine
	written              float64 // bytes to devices, for a delivery
	backlog              int64   // accepted, but not delivered when the window closed
	drained              time.Duration
}

// bench is one run: both sides, the publisher and the sink.
type bench struct {
	settings
	publisher, sink *role
	sides           []*side
	out             io.Writer
	database        *database // nil: SQLite
	secret          string    // of the source; empty: events come in at the API
}

// database is the benchmark's own PostgreSQL, on the same disk as a SQLite database would be.
type database struct {
	server *pgtest.Server
	url    string
	main   int // the parent of all other processes of the server
}

// world is a store as an installation of some years has it: tenants, endpoints in every state,
// sources, queues, keys, and around a backlog of deliveries what people did. Its settings are made
// by the API and its past by the store, so neither names a column.
type world struct {
	n, endpoints, seed int
	weeks              int
}
