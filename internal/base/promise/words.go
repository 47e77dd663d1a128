package promise

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Percent is a share as people write it: 99.95 %, 71 %, and never 100 % for something less.
func Percent(share float64) string {
	p := share*100 + 1e-9 // a share such as 0.0028 has no exact form
	switch {
	case share == 1 || share == 0:
		return strconv.Itoa(int(p)) + " %"
	case p > 99.9 || p < 0.1 && p > -0.1:
		return trimmed(math.Floor(p*1000)/1000, 3) + " %"
	case p > 99 || p < 1 && p > -1:
		return trimmed(math.Floor(p*100)/100, 2) + " %"
	case p > 10 || p < -10:
		return trimmed(math.Floor(p), 0) + " %"
	}
	return trimmed(math.Floor(p*10)/10, 1) + " %"
}

func trimmed(n float64, digits int) string {
	text := strconv.FormatFloat(n, 'f', digits, 64)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}

// Budget says in words how much of the budget is left and how long it lasts, without a full stop:
// "budget left 71 %, at this rate until 9 June".
func (v *Verdict) Budget(now time.Time) string {
	switch {
	case v.Share == 0 && v.All() == 0:
		return "nothing was counted yet"
	case v.Share == 0:
		return fmt.Sprintf("%s in 28 days; shown, not promised: the receivers' speed is in it", v.Kept())
	case v.Share >= 1 && v.All() == 0:
		return "the balance was not looked at yet"
	case v.Share >= 1 && v.Bad == 0:
		return "no accepted event was lost"
	case v.Share >= 1:
		return "deliveries are missing in the balance; this is a defect of Grapnel"
	case v.All() == 0:
		return "nothing was counted yet"
	case !v.Judged:
		return fmt.Sprintf("too few events to judge: %d, and %d are needed", v.All(), LeastEvents)
	case v.Left <= 0:
		return "budget used up " + times(1-v.Left)
	case v.Bad == 0:
		return "budget left 100 %, nothing of it was used"
	case v.Few:
		return fmt.Sprintf("budget left %s, too few events in the last day to say how long it lasts", Percent(v.Left))
	case v.Rate == 0:
		return fmt.Sprintf("budget left %s, nothing of it was used in the last day", Percent(v.Left))
	case v.Until.IsZero():
		return fmt.Sprintf("budget left %s, at this rate it lasts", Percent(v.Left))
	}
	return fmt.Sprintf("budget left %s, at this rate until %s", Percent(v.Left), Date(v.Until, now))
}

// times says how often something was done: "1.4 times".
func times(n float64) string {
	if n < 1.05 {
		return "once"
	}
	if n >= 100 {
		return "more than 100 times"
	}
	return trimmed(math.Round(n*10)/10, 1) + " times"
}

// Kept is the share of good events in words; empty: there are none.
func (v *Verdict) Kept() string {
	if v.All() == 0 {
		return ""
	}
	return Percent(float64(v.Good) / float64(v.All()))
}

// Broken says whether more than the budget is used up.
func (v *Verdict) Broken() bool { return v.Judged && v.Share > 0 && v.Left <= 0 }

// Fires is the severity of the fastest pair of windows that burns; empty: none does.
func (v *Verdict) Fires() string {
	for _, b := range v.Burning {
		if b.Fires {
			return b.Severity
		}
	}
	return ""
}

// Date is a day in words: "9 June", with the year if it is another one, the time of day if it is
// today or tomorrow.
func Date(at, now time.Time) string {
	at, now = at.UTC(), now.UTC()
	switch {
	case at.Sub(now) < 24*time.Hour && at.After(now):
		return at.Format("2 January 15:04 UTC")
	case at.Year() != now.Year():
		return at.Format("2 January 2006")
	}
	return at.Format("2 January")
}
