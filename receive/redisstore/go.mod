module github.com/grapnelhq/grapnel/receive/redisstore

go 1.26.8

require (
	github.com/grapnelhq/grapnel v0.0.0
	github.com/redis/go-redis/v9 v9.23.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	golang.org/x/sys v0.50.0 // indirect
)

replace github.com/grapnelhq/grapnel => ../..
