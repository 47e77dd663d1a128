package alert

import (
	"cmp"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/say"
)

// Facts are the measurements at one moment. A part that could not be read is nil, and its rules are
// in Unread.
type Facts struct {
	Now       time.Time
	Endpoints []Endpoint
	Backlogs  []Backlog
	Hours     []Hours
	Sources   []Source
	Disk      *Disk
	Imbalance *int64
	Burns     []Burn
	Keys      []grapnel.Key // new ones with all rights
	Ending    []grapnel.Key // those that have an end
	Own       Own
	Backups   *Backups // nil: none are scheduled
	Unread    Unread   // rules whose facts are missing
}

// Endpoint is an endpoint or a queue, with its health.
type Endpoint struct {
	*grapnel.Endpoint
	Health           grapnel.Health
	Due              time.Time // of the earliest due delivery; zero: none is due, or it was not looked at
	Leased           int64     // messages that consumers lease
	CertificateUntil time.Time // end of validity of its certificate; zero: unknown
	ClientCertUntil  time.Time // end of the client certificate of its settings; zero: it has none
	Tries            int       // the most failed attempts of a pending delivery; 0: unknown
}

// Backlog is the number of pending deliveries of a tenant, now and before.
type Backlog struct {
	Tenant      string // empty: of all
	Now, Before int64
}

// Hours are the totals of a tenant: of the last hour, and of a usual one.
type Hours struct {
	Tenant string // empty: of all
	Last   Hour
	Usual  Baseline
	Groups []Group // of dead letters
}

// Group is the dead letters of one endpoint with one reason since a time.
type Group struct {
	Endpoint *grapnel.Endpoint
	Reason   grapnel.ReasonCode
	Count    int64
	Since    time.Time
	Grew     time.Time // the last look that found more than the one before
	Newest   string    // why the newest of them failed
}

// Source is a source with what it received.
type Source struct {
	*grapnel.Source
	Last       time.Time // its last event; zero: none, or unknown
	Unverified int       // requests in the last hour that could not be verified
}

// Disk is the space where the store is, in bytes.
type Disk struct{ Free, Total uint64 }

// Backups is how the scheduled backups went.
type Backups struct {
	Failed int       // since the last complete one
	Reason string    // of the last that failed
	Newest time.Time // when the newest complete one was begun; zero: there is none
}

// Own is the server's public address.
type Own struct {
	Host             string
	CertificateUntil time.Time // end of validity of its certificate; zero: unknown
}

// Burn is one pair of windows of a promise's error budget. Both have to exceed Allowed.
type Burn struct {
	Promise     string // its name: "availability"
	Windows     string // "1 h and 5 min"
	Long, Short float64
	Allowed     float64
	Severity    string
}

// Samples measures all rules.
func (f *Facts) Samples() []Sample {
	var all []Sample
	oldest := map[string]*Endpoint{} // by tenant
	for i := range f.Endpoints {
		e := &f.Endpoints[i]
		all = append(all, e.samples(f.Now)...)
		if due := oldest[e.Tenant]; !e.Due.IsZero() && e.takes() && (due == nil || e.Due.Before(due.Due)) {
			oldest[e.Tenant] = e
		}
	}
	all = f.ages(all, oldest)
	for _, b := range f.Backlogs {
		all = append(all, sample(BacklogGrowth, b.Tenant, about(b.Tenant), float64(b.Now)/float64(max(b.Before, leastBacklog)),
			"%s pending; 15 minutes ago it was %s.", say.Many(int(b.Now), "delivery is", "deliveries are"), say.Count(b.Before)))
	}
	for i := range f.Hours {
		all = append(all, f.Hours[i].samples(about(f.Hours[i].Tenant))...)
		for j := range f.Hours[i].Groups {
			all = append(all, f.Hours[i].Groups[j].sample())
		}
	}
	for i := range f.Sources {
		all = append(all, f.Sources[i].samples(f.Now)...)
	}
	for i := range f.Ending {
		k := &f.Ending[i]
		all = append(all, ends(KeyExpires, k.Tenant, aboutKey(k), k.ExpiresAt, f.Now,
			"The key "+k.ID+" is valid until %s: for %s. Create another one, or give it a later end.",
			"The key "+k.ID+" ended at %s: requests with it are refused."))
	}
	return append(all, f.operators()...)
}

// sample is one whose text is written as by fmt.Sprintf.
func sample(rule, tenant string, of Subject, value float64, format string, args ...any) Sample {
	return Sample{rule, tenant, of, value, fmt.Sprintf(format, args...), Also{}}
}

// ends is the sample about something with an end: the days left, and as text that which is valid
// before, with the end and the time left, or that which is valid after, with the end.
func ends(rule, tenant string, of Subject, end, now time.Time, before, after string) Sample {
	left, at := end.Sub(now), end.UTC().Format(time.DateTime+" UTC")
	if left <= 0 {
		return sample(rule, tenant, of, left.Hours()/24, after, at)
	}
	return sample(rule, tenant, of, left.Hours()/24, before, at, say.Spoken(left))
}

// leastBacklog is the number of pending deliveries below which growth is no news.
const leastBacklog = 1000

func aboutKey(k *grapnel.Key) Subject {
	return Subject{Kind: "key", ID: k.ID, Name: cmp.Or(k.Name, k.ID)}
}

// takes says whether due deliveries of the endpoint should be attempted now.
func (e *Endpoint) takes() bool {
	return e.Queue == nil && slices.Contains([]grapnel.HealthState{grapnel.HealthHealthy, grapnel.HealthDegraded, grapnel.HealthFailing}, e.Health.State)
}

// Waits says whether a rule asks for the endpoint's earliest due delivery.
func (e *Endpoint) Waits() bool {
	return e.takes() || e.Queue != nil && e.Status == grapnel.EndpointEnabled && e.Leased == 0
}

// tried is the end of the time over which a failing endpoint is judged: now while an attempt is in
// flight or planned, else its last failure. An endpoint that nothing is sent to fails no longer by
// being idle. Zero: the last failure was before this process began.
func (e *Endpoint) tried(now time.Time) time.Time {
	if e.Health.InFlight > 0 || !e.Health.NextAttemptAt.IsZero() {
		return now
	}
	return e.Health.FailedAt
}

// Hidden says whether it is unknown if the endpoint is degraded: a worse state hides that, or nothing
// was counted yet. Its alert stays as it is.
func (e *Endpoint) Hidden() bool {
	return e.Status == grapnel.EndpointEnabled && e.Health.State != grapnel.HealthHealthy &&
		(e.Health.State != grapnel.HealthDegraded || e.Health.FirstAttempts == 0)
}

// Forgotten says whether the last failure of an idle endpoint is unknown, because it was before
// this process began: its alerts stay as they are until the next attempt.
func (e *Endpoint) Forgotten() bool {
	return !e.Health.FailingSince.IsZero() && e.tried(e.Health.FailingSince).IsZero()
}

// Name is what people call an endpoint.
func Name(ep *grapnel.Endpoint) string {
	if ep.Queue != nil {
		return ep.Queue.Name
	}
	host := ""
	if u, err := url.Parse(ep.URL); err == nil && ep.Channel == nil { // of most channels the URL has a mask there
		host = u.Host
	}
	return cmp.Or(ep.Description, host, ep.URL, ep.ID)
}

func aboutEndpoint(ep *grapnel.Endpoint) Subject {
	kind := "endpoint"
	if ep.Queue != nil {
		kind = "queue"
	}
	return Subject{Kind: kind, ID: ep.ID, Name: Name(ep)}
}

// samples are those about one endpoint.
func (e *Endpoint) samples(now time.Time) []Sample {
	subject := aboutEndpoint(e.Endpoint)
	var all []Sample
	add := func(rule string, value float64, format string, args ...any) {
		all = append(all, sample(rule, e.Tenant, subject, value, format, args...))
	}
	if e.Tries > 0 {
		add(FailedAttempts, float64(e.Tries), "A pending delivery has failed %s.", say.Times(e.Tries))
	}
	if e.Queue != nil {
		if late := now.Sub(e.Due); !e.Due.IsZero() && e.Waits() {
			add(ConsumerGone, late.Seconds(), "The oldest message has been due for %s, and no consumer holds a lease.", say.Spoken(late))
		}
		return all
	}
	h := &e.Health
	if e.Status == grapnel.EndpointDisabled {
		if !strings.HasPrefix(e.DisabledReason, grapnel.OperatorReason) { // that needs no alert
			add(EndpointDisabled, 1, "Nothing is sent to it until a person enables it. Reason: %s.", strings.TrimSuffix(e.DisabledReason,
				"."))
		}
		return all
	}
	if !e.ClientCertUntil.IsZero() {
		all = append(all, ends(ClientCert, e.Tenant, subject, e.ClientCertUntil, now,
			"Its client certificate is valid until %s: for %s. Give it another one.", "Its client certificate ended at %s."))
	}
	because := ""
	if h.Reason != "" {
		because = " Last: " + strings.TrimSuffix(h.Reason, ".") + "."
	}
	if (h.State == grapnel.HealthFailing || h.State == grapnel.HealthOpen) && !h.FailingSince.IsZero() && !e.Forgotten() {
		failing := e.tried(now).Sub(h.FailingSince)
		add(EndpointFailing, failing.Seconds(), "No attempt has succeeded for %s.%s", say.Spoken(failing), because)
	}
	if h.State == grapnel.HealthDegraded && h.FirstAttempts > 0 {
		add(EndpointDegraded, 100*float64(h.FirstFailed)/float64(h.FirstAttempts),
			"%d of %d first attempts failed in the last hour. grapnel why %s says what these have in common.", h.FirstFailed, h.FirstAttempts, e.ID)
	}
	if h.State == grapnel.HealthOpen && !h.Since.IsZero() && !e.Forgotten() {
		open := e.tried(now).Sub(h.Since)
		add(CircuitOpen, open.Seconds(), "Its deliveries have been held for %s, but for probes.%s", say.Spoken(open), because)
	}
	if way := h.Disabling; way > 0 {
		add(DisableSoon, float64(way), "It is %d percent of the way to being disabled.%s", way, because)
	}
	return append(all, certificate(e.Tenant, subject, e.CertificateUntil, now)...)
}

// certificate is the sample about a certificate that is valid until a time; none if that is zero.
func certificate(tenant string, of Subject, until, now time.Time) []Sample {
	if until.IsZero() {
		return nil
	}
	return []Sample{ends(Certificate, tenant, of, until, now,
		"Its certificate is valid until %s: for %s.", "Its certificate expired at %s.")}
}

// ages are the samples about the oldest due delivery of each tenant, and of all.
func (f *Facts) ages(all []Sample, oldest map[string]*Endpoint) []Sample {
	var worst *Endpoint
	for _, e := range oldest {
		late := f.Now.Sub(e.Due)
		all = append(all, sample(BacklogAge, e.Tenant, about(e.Tenant), late.Seconds(),
			"The oldest due delivery, at %s, has waited for %s.", Name(e.Endpoint), say.Spoken(late)))
		if worst == nil || e.Due.Before(worst.Due) || e.Due.Equal(worst.Due) && e.ID < worst.ID {
			worst = e
		}
	}
	if worst != nil {
		late := f.Now.Sub(worst.Due)
		all = append(all, sample(BacklogAge, "", about(""), late.Seconds(),
			"The oldest due delivery, of tenant %s at %s, has waited for %s.", worst.Tenant, Name(worst.Endpoint), say.Spoken(late)))
	}
	return all
}

// samples are those about the totals of a tenant, or of all.
func (h *Hours) samples(of Subject) []Sample {
	all := []Sample{sample(DeadLetters, h.Tenant, of, h.Usual.deadLetters(&h.Last), "%s in the last hour; usually it is %s an hour.",
		say.Many(int(math.Round(h.Last.Failed)), "dead letter", "dead letters"), number(h.Usual.Failed))}
	if drop, known := h.Usual.drop(&h.Last); known && h.Tenant != "" {
		all = append(all, sample(FirstAttempts, h.Tenant, of, drop,
			"%s percent of the %.0f first attempts of the last hour succeeded; usually it is %s percent.",
			number(100*h.Last.Good/h.Last.Firsts), h.Last.Firsts, number(100*h.Usual.Success)))
	}
	return all
}

// sample is that about a group of dead letters.
func (g *Group) sample() Sample {
	text := fmt.Sprintf("%s since %s UTC.", say.Many(int(g.Count), "dead letter", "dead letters"), g.Since.UTC().Format("15:04"))
	if g.Newest != "" {
		text += " The newest " + strings.TrimSuffix(g.Newest, ".") + "."
	}
	return Sample{DeadLetter, g.Endpoint.Tenant, aboutEndpoint(g.Endpoint), float64(g.Count), text,
		Also{Part: string(g.Reason), Last: g.Grew}}
}

// samples are those about one source.
func (s *Source) samples(now time.Time) []Sample {
	subject := Subject{Kind: "source", ID: s.ID, Name: s.Name}
	var all []Sample
	if silent := now.Sub(s.Last); !s.Last.IsZero() && !s.Paused {
		all = append(all, sample(SourceSilent, s.Tenant, subject, silent.Seconds(), "Its last event came %s ago.", say.Spoken(silent)))
	}
	if s.Unverified > 0 {
		all = append(all, sample(SignatureFails, s.Tenant, subject, float64(s.Unverified),
			"%s could not be verified in the last hour. Was the secret rotated at the provider?", say.Many(s.Unverified, "request", "requests")))
	}
	return all
}

// operators are the samples for the operator alone.
func (f *Facts) operators() (all []Sample) {
	server := about("")
	if f.Disk != nil && f.Disk.Total > 0 {
		free := 100 * float64(f.Disk.Free) / float64(f.Disk.Total)
		all = append(all, sample(DiskFull, "", server, free,
			"%s percent of the space for the store is free. When it is full, events are refused with 507.", number(free)))
	}
	if f.Imbalance != nil {
		all = append(all, sample(Imbalance, "", server, math.Abs(float64(*f.Imbalance)),
			"Created deliveries minus pending, finished and purged ones are %d.", *f.Imbalance))
	}
	if b := f.Backups; b != nil {
		newest := "There is no complete backup."
		if !b.Newest.IsZero() {
			newest = "The newest complete one was begun at " + b.Newest.UTC().Format(time.RFC3339) + "."
		}
		all = append(all, sample(BackupFails, "", server, float64(b.Failed), "%s failed in a row. %s Last: %s.",
			say.Many(b.Failed, "scheduled backup has", "scheduled backups have"), newest, strings.TrimSuffix(b.Reason, ".")))
	}
	all = append(all, certificate("", Subject{Kind: "server", ID: f.Own.Host, Name: f.Own.Host}, f.Own.CertificateUntil, f.Now)...)
	for _, b := range f.Burns {
		all = append(all, Sample{BurnRate, "", server, b.times(),
			fmt.Sprintf("Over %s the error budget of %s is used %s and %s times as fast as it lasts for 28 days; %s is allowed.", b.Windows,
				b.Promise, number(b.Long), number(b.Short), number(b.Allowed)), Also{Severity: b.Severity}})
	}
	for i := range f.Keys {
		k := &f.Keys[i]
		all = append(all, sample(AdminKey, "", aboutKey(k), 1,
			"The key %s may do everything with all tenants. Revoke it if you do not know who created it.", k.ID))
	}
	return all
}

// times is how often the slower of both windows has the allowed burn rate.
func (b *Burn) times() float64 {
	if b.Allowed <= 0 {
		return 0
	}
	return min(b.Long, b.Short) / b.Allowed
}

// number is a number for people: with one digit after the point if it is small.
func number(v float64) string {
	if v >= 100 || v == math.Trunc(v) {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.1f", v)
}
