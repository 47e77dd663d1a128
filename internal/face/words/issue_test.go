package words

import (
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/policy"
	"github.com/grapnelhq/grapnel/wire"
)

func TestIssue(t *testing.T) {
	noon := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		state       string
		status      int
		class       policy.Class
		regressions int
		want        string
	}{
		{"open", 503, "status_5xx", 0,
			"hooks has answered with status 503 since 23 Nov 12:00 UTC: 2 attempts of 2 deliveries failed, the last one on 23 Nov 12:00 UTC."},
		{"open", 0, "tls", 1, "hooks has failed in the TLS handshake since 23 Nov 12:00 UTC, after it was resolved: 2 attempts of 2 deliveries failed in all,"},
		{"acknowledged", 0, "timeout", 0, " It is acknowledged."},
		{"muted", 0, "timeout", 0, "hooks has not answered in time since 23 Nov 12:00 UTC: "},
		{"resolved", 503, "status_5xx", 0,
			"Resolved on 23 Nov 12:00 UTC (fixed). From 23 Nov 12:00 UTC until 23 Nov 12:00 UTC it was: hooks has answered with status 503;"},
		{"open", 0, "redirect", 0, "hooks has failed with the error redirect since "},
	} {
		i := wire.Issue{State: c.state, StatusCode: c.status, ErrorClass: c.class, Regressions: c.regressions, Failures: 2, Deliveries: 2,
			FirstSeen: noon, LastSeen: noon, Since: noon, ResolvedAt: &noon, MutedUntil: &noon, Resolution: "fixed"}
		if got := Issue(&i, "hooks"); !strings.Contains(got, c.want) {
			t.Errorf("%s: %s", c.state, got)
		}
	}
}
