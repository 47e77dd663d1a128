package postgres

import (
	"context"
	"time"
)

// probeSQL writes a row that no other statement writes. It must change the row: a commit without a
// change is not synced, so its success would show nothing.
const probeSQL = "UPDATE peer SET secret = secret"

// probes notices a database that is unreachable while no request writes, so that readiness fails
// before a publisher meets the fault. It also notices the recovery, because without publishers no
// commit would show it.
func (s *writer) probes() {
	tick := time.NewTicker(s.bounds.Conns.Probe)
	defer tick.Stop()
	commits := int64(-1)
	for {
		select {
		case <-tick.C:
		case <-s.quit:
			return
		}
		var quiet bool
		quiet, commits = s.able.quiet(commits)
		switch {
		case s.refusal() != nil:
		case s.Unable() != nil:
			s.able.probed(s.probe(probeSQL, s.bounds.Conns.Patience), commits, s.now())
		case quiet:
			if err := s.probe("SELECT", s.bounds.Conns.Stall); err != nil {
				s.able.probed(err, commits, s.now())
			}
		}
	}
}

// probe uses a connection for writing. While no write waits, one is free.
func (s *writer) probe(sql string, within time.Duration) error {
	ctx, cancel := context.WithTimeout(s.ctx, within)
	defer cancel()
	_, err := s.writing.Exec(ctx, sql)
	return asError(err)
}
