package store

import (
	"context"
	"slices"

	"github.com/grapnelhq/grapnel/internal/base/seal"
)

// SealedDocument begins the kind that the sealed body of a document is bound to.
const SealedDocument = "document/"

func (d *Document) at() seal.At {
	return seal.At{Tenant: d.Tenant, Kind: SealedDocument + d.Kind, ID: d.ID}
}

// SealDocuments returns the writes as a store keeps them.
func SealDocuments(ctx context.Context, s *seal.Sealer, writes []DocumentWrite) (_ []DocumentWrite, err error) {
	if s == nil {
		return writes, nil
	}
	writes = slices.Clone(writes)
	for i := range writes {
		if w := &writes[i]; !w.Delete {
			if w.Body, err = s.Seal(ctx, w.at(), w.Body); err != nil {
				return nil, err
			}
		}
	}
	return writes, nil
}

// OpenDocument opens the body that a store has read.
func OpenDocument(ctx context.Context, s *seal.Sealer, d Document) (_ Document, err error) {
	d.Body, err = s.Open(ctx, d.at(), d.Body)
	return d, err
}
