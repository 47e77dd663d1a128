package server

import (
	"fmt"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/promise"
	"github.com/grapnelhq/grapnel/internal/base/say"
	"github.com/grapnelhq/grapnel/internal/tell/alert"
)

// burns are the burn rates of the promises' error budgets, for the rule of alerts. Windows with too
// few events to say anything are left out, so their alerts are resolved.
func burns(r promise.Report) (all []alert.Burn) {
	for i := range r.Promises {
		v := &r.Promises[i]
		for _, b := range v.Burning {
			if b.Events < promise.LeastEvents || v.Objective.Budget() <= 0 {
				continue
			}
			severity := grapnel.SeverityWarning
			if b.Severity == grapnel.SeverityPage {
				severity = grapnel.SeverityPage
			}
			all = append(all, alert.Burn{Promise: v.Name, Windows: fmt.Sprintf("%s and %s", say.Spoken(b.Long), say.Spoken(b.Short)),
				Long: b.LongRatio / v.Objective.Budget(), Short: b.ShortRatio / v.Objective.Budget(), Allowed: b.Rate, Severity: severity})
		}
	}
	return all
}
