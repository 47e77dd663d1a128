package engine

import (
	"context"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// neighbours are nodes of one process.
type neighbours map[string]*Engine

func (n neighbours) Hint(string, []store.Head, []string)              {}
func (n neighbours) Order(context.Context, string, store.Order) error { return nil }
func (n neighbours) Open(context.Context, string) ([]string, error)   { return nil, nil }
func (n neighbours) Consumers(context.Context, string, string) ([]grapnel.Consumer, error) {
	return nil, nil
}
func (n neighbours) Quiet(context.Context, string, string) (bool, error) { return true, nil }
func (n neighbours) CatchUp(ctx context.Context, address string) error {
	return n[address].CatchUp(ctx)
}
func (n neighbours) Healths(context.Context, string, []string) ([]grapnel.Health, error) {
	return nil, nil
}

// onRequest marks the context of what a node does because another one asked it.
type onRequest struct{}
