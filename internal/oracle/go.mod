module github.com/grapnelhq/grapnel/internal/oracle

go 1.26.8

require (
	github.com/grapnelhq/grapnel v0.0.0
	github.com/standard-webhooks/standard-webhooks/libraries v0.0.1
)

replace github.com/grapnelhq/grapnel => ../..
