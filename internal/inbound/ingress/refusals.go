package ingress

import (
	"net/http"
	"time"
)

// add takes a refusal in.
func (f *refusals) add(now time.Time, refused *Refusal) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last = Refusals{LastAt: now, LastStatus: refused.Status, LastReason: refused.Detail}
	f.advance(now)
	f.minutes[f.minute%60]++
	if refused.Status == http.StatusUnauthorized {
		f.unverified[f.minute%60]++
	}
}

// advance clears the minutes older than an hour. If the clock was set back, the newest minute
// counts on; if by more than an hour, all counts become those of this minute, so they end.
func (f *refusals) advance(now time.Time) {
	minute := now.Unix() / 60
	if f.minute > minute+60 {
		all, unverified := f.sum()
		f.minutes, f.unverified, f.minute = [60]int{}, [60]int{}, minute
		f.minutes[minute%60], f.unverified[minute%60] = all, unverified
	}
	for f.minute = max(f.minute, minute-60); f.minute < minute; {
		f.minute++
		f.minutes[f.minute%60], f.unverified[f.minute%60] = 0, 0
	}
}

// told returns the refusals as of a time.
func (f *refusals) told(now time.Time) Refusals {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.advance(now)
	told := f.last
	told.LastHour, told.Unverified = f.sum()
	return told
}

// sum adds up all minutes.
func (f *refusals) sum() (all, unverified int) {
	for i, n := range f.minutes {
		all, unverified = all+n, unverified+f.unverified[i]
	}
	return all, unverified
}

// Refusals returns the refused requests of a source.
func (recv *Receiver) Refusals(id string) Refusals {
	if s, there := recv.sources.Load(id); there {
		return s.(*source).meter.refused.told(recv.o.Now())
	}
	return Refusals{}
}
