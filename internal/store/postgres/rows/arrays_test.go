package rows

import (
	"bytes"
	"testing"

	"github.com/jackc/pgx/v5/pgtype"
	"pgregory.net/rapid"

	"github.com/grapnelhq/grapnel/internal/base/rapidtest"
)

// TestArraysAreEncodedAsByPgx compares each plan with pgx's own, whose bytes every server
// understands.
func TestArraysAreEncodedAsByPgx(t *testing.T) {
	usual, ours := pgtype.NewMap(), pgtype.NewMap()
	PlanArrays(ours)
	list := func(name string, values *rapid.Generator[any]) {
		t.Run(name, func(t *testing.T) {
			rapidtest.Check(t, func(t *rapid.T) {
				is, known := ours.TypeForName(name)
				if !known {
					t.Fatalf("no type %s", name)
				}
				value := values.Draw(t, "value")
				if plan, own := ours.PlanEncode(is.OID, pgtype.BinaryFormatCode, value).(arrayEncoder); !own {
					t.Fatalf("%T is encoded by pgx: %T", value, plan)
				}
				for _, before := range []string{"", "before"} {
					want, wrong := usual.Encode(is.OID, pgtype.BinaryFormatCode, value, []byte(before))
					got, err := ours.Encode(is.OID, pgtype.BinaryFormatCode, value, []byte(before))
					if wrong != nil || err != nil || !bytes.Equal(got, want) {
						t.Fatalf("%#v: % x, %v; want % x, %v", value, got, err, want, wrong)
					}
				}
			})
		})
	}
	list("_int2", rapid.SliceOf(rapid.Int16()).AsAny())
	list("_int4", rapid.SliceOf(rapid.Int32()).AsAny())
	list("_int8", rapid.SliceOf(rapid.Int64()).AsAny())
	list("_text", rapid.SliceOf(rapid.String()).AsAny())
	list("_bytea", rapid.SliceOf(rapid.OneOf(rapid.SliceOf(rapid.Byte()), rapid.Just([]byte(nil)))).AsAny())
}
