package wire

import (
	"time"

	"github.com/grapnelhq/grapnel/policy"
)

// SLO is how a server keeps its promises.
type SLO struct {
	Raw
	At         time.Time        `json:"at" doc:"time of the last sample"`
	Since      *time.Time       `json:"since" nullable:"true" doc:"when counting began; null: nothing was counted yet"`
	WindowDays int              `json:"window_days"`
	Promises   []Promise        `json:"promises" nullable:"false"`
	Latency    []PromiseLatency `json:"latency" nullable:"false"`
}

// MarshalJSON writes the promises as the API does.
func (s SLO) MarshalJSON() ([]byte, error) { return Encode(s) }

// Promise is one promise over the window.
type Promise struct {
	Name       string           `json:"name" enum:"availability,freshness,arrival,no_loss"`
	Title      string           `json:"title"`
	Says       string           `json:"says" doc:"what the objective is a share of"`
	Objective  float64          `json:"objective" doc:"share that is promised; 0: shown and not promised"`
	Good       int64            `json:"good"`
	Bad        int64            `json:"bad"`
	State      string           `json:"state" enum:"kept,burning,broken,few,informative" doc:"burning: an alert about the budget fires; few: too few events to judge"`
	Sentence   string           `json:"sentence" doc:"the same in words"`
	BudgetLeft float64          `json:"budget_left" doc:"part of the budget that is left; below 0: more than all of it is used up"`
	BudgetTime *policy.Duration `json:"budget_time" nullable:"true" doc:"the whole budget as a time in which everything fails"`
	BurnRate   float64          `json:"burn_rate" doc:"how many times too fast the budget was used up over the last day"`
	Until      *time.Time       `json:"until" nullable:"true" doc:"when nothing is left at this rate; null: not within the window"`
	Burns      []PromiseBurn    `json:"burns" nullable:"false"`
	Days       []PromiseDay     `json:"days" nullable:"false" doc:"of the window, in UTC, the oldest first"`
}

// PromiseBurn is a pair of windows; its alert fires if both are above the threshold.
type PromiseBurn struct {
	Severity   string          `json:"severity" enum:"page,ticket"`
	Long       policy.Duration `json:"long"`
	Short      policy.Duration `json:"short"`
	Rate       float64         `json:"rate" doc:"times too fast"`
	Threshold  float64         `json:"threshold" doc:"share of bad events"`
	LongRatio  float64         `json:"long_ratio"`
	ShortRatio float64         `json:"short_ratio"`
	Events     int64           `json:"events" doc:"in the short window; fewer than 100 never fire"`
	Fires      bool            `json:"fires"`
}

// PromiseDay is one day.
type PromiseDay struct {
	Date string `json:"date"`
	Good int64  `json:"good"`
	Bad  int64  `json:"bad"`
	Gaps int    `json:"gaps" doc:"slots of five minutes in which no node measured anything"`
}

// PromiseLatency are durations over the last day; null without any.
type PromiseLatency struct {
	Of string `json:"of" enum:"accept,receive,dispatch,arrive" doc:"accept: answering a publish; receive: answering a request to a source; dispatch: from commit to attempt; arrive: from commit to 2xx"`
	Latency
}
