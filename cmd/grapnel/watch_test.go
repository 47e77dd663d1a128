package main

import (
	"strings"
	"testing"
)

// A command that waits for a job waits no longer than a --timeout that is given: the job may be
// paused for days.
func TestWatchKeepsToItsTimeout(t *testing.T) {
	for _, args := range []string{"replay watch rpl_1", "replay start ep_1 --watch --yes"} {
		f := newFake(t, always(200, `{"id":"rpl_1","status":"paused","total":2}`))
		if got := invoke(t, f.env(), "", append(strings.Fields(args), "--timeout", "300ms")...); got.code != 124 {
			t.Errorf("%s: %+v", args, got)
		}
	}
}
