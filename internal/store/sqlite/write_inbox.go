package sqlite

import (
	"context"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/rows"
)

const (
	// asideColumns are the columns of readAside.
	asideColumns   = "id, tenant, why, event, content_type, size, intake"
	asideQuery     = "SELECT " + asideColumns + ", packed, sum, body FROM aside WHERE id = ?"
	unlearnedQuery = "SELECT seq FROM known WHERE until < ? ORDER BY until, seq LIMIT ?"
	oldAsidesQuery = "SELECT number FROM aside WHERE at < ? ORDER BY at, number LIMIT ?"
)

// SetAside encodes on the caller's goroutine, as Append does.
func (s *changer) SetAside(ctx context.Context, a grapnel.Aside) error {
	why, known := rows.Asides.Place(a.Why)
	if !known || why == 0 {
		return grapnel.Errorf(grapnel.CodeInvalid, "%q is not a reason to set a request aside", a.Why)
	}
	a.Size = len(a.Body)
	f, err := s.packer.FreezeAside(ctx, &a)
	if err != nil {
		return err
	}
	return s.write(ctx, &change{do: func(t *tx) error {
		set := t.q.addAside.Text(a.ID).Text(a.Tenant).Text(a.Source).Int(why).Int(codec.Micros(a.At))
		return rows.BindName(set, a.Event).Text(a.ContentType).Int(int64(a.Size)).Blob(f.Intake).Int(f.Packed).Int(f.Sum).Blob(f.Data).Run()
	}})
}

// ChangeAside encodes on the caller's goroutine, as SetAside does.
func (s *changer) ChangeAside(ctx context.Context, a grapnel.Aside, drop bool) error {
	if drop {
		return s.write(ctx, &change{shrinks: true, do: func(t *tx) error { return t.q.forgetAside.Text(a.ID).Text(a.Tenant).Run() }})
	}
	why, known := rows.Asides.Place(a.Why)
	if !known || why == 0 {
		return grapnel.Errorf(grapnel.CodeInvalid, "%q is not a reason to set a request aside", a.Why)
	}
	a.Size = len(a.Body)
	f, err := s.packer.DescribeAside(ctx, &a)
	if err != nil {
		return err
	}
	return s.write(ctx, &change{do: func(t *tx) error {
		return rows.BindName(t.q.changeAside.Int(why), a.Event).Blob(f.Intake).Int(f.Sum).Text(a.ID).Text(a.Tenant).Run()
	}})
}
