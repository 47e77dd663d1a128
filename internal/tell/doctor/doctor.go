// Package doctor looks for faults of an installation that its operator can mend: of settings,
// files, disk, clock, network, certificates, keys and the database. It runs beside a server or
// without one.
//
// The checks are rows (checks.go). Each looks at a Subject and returns findings: the fault, why it
// matters and what to do. A check whose object is absent or cannot be seen says why it was skipped;
// that is no finding, so a healthy installation has none. Nothing is changed: the one file that is
// written measures the disk and is removed. The network is used only as deliveries would use it, to
// the hosts of endpoints and to URLs that the operator gave; no path of an endpoint is requested.
//
// It does not promise that an installation without findings works: load, for one, is not tried.
package doctor

import (
	"context"

	"github.com/grapnelhq/grapnel/internal/base/bounds"
)

// Examine runs all checks, one after the other.
func Examine(ctx context.Context, s *Subject) Report {
	s.Bounds = bounds.Fill(s.Bounds)
	s.prepare(ctx)
	r := Report{Findings: []Finding{}, Skipped: []Skip{}, Checks: len(Checks)}
	for _, c := range Checks {
		found, skipped := c.run(ctx, s)
		for _, f := range found {
			f.Check = c.Name
			r.Findings = append(r.Findings, f)
		}
		if skipped != "" {
			r.Skipped = append(r.Skipped, Skip{c.Name, skipped})
		}
	}
	return r
}

// prepare looks once at what several checks need.
func (s *Subject) prepare(ctx context.Context) {
	s.server = s.lookAtServer(ctx)
	if s.Postgres != nil {
		s.database, s.unusable = s.Postgres(ctx)
	}
	s.endpoints = s.readEndpoints(ctx)
	s.hosts = s.reachAll(ctx)
}
