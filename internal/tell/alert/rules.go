package alert

import (
	"cmp"
	"slices"
	"time"

	"github.com/grapnelhq/grapnel"
)

// Rule is one condition that people want to know of. Rules are rows of a table; thresholds,
// severities and whether a rule is on can be changed for a tenant or for all (Setting).
type Rule struct {
	Name      string
	Title     string // of its alerts, after the subject's name: "endpoint fails"
	About     string // the measurement, for people
	Tenants   bool   // it concerns tenants
	Operator  bool   // it concerns the operator
	Severity  string
	Unit      Unit
	Threshold float64       // it fires at a value this high; with Below, this low
	Below     bool          // low values are bad
	Hold      time.Duration // for which the value has to be there before it fires
	Calm      time.Duration // for which the value has to be back before it is resolved
	Once      bool          // it reports an occurrence: its end is Silent
	Hourly    bool          // further occurrences are told once an hour
	Off       bool          // unless a person switches it on
	Backtest  bool          // stored history has its facts
}

// Unit is the unit of a rule's value.
type Unit string

// The units.
const (
	Seconds Unit = "seconds"
	Percent Unit = "percent"
	Points  Unit = "percentage points"
	Times   Unit = "times the usual"
	Days    Unit = "days"
	Number  Unit = "number"
	Yes     Unit = "yes or no" // 1 or 0; the threshold cannot be changed
)

// Names of rules that this package and others treat in a special way.
const (
	EndpointFailing  = "endpoint_failing"
	EndpointDegraded = "endpoint_degraded"
	CircuitOpen      = "circuit_open"
	DisableSoon      = "disable_soon"
	EndpointDisabled = "endpoint_disabled"
	DeadLetter       = "dead_letter"
	FailedAttempts   = "failed_attempts"
	DeadLetters      = "dead_letters"
	BacklogAge       = "backlog_age"
	BacklogGrowth    = "backlog_growth"
	FirstAttempts    = "first_attempts"
	SourceSilent     = "source_silent"
	SignatureFails   = "signature_failures"
	ConsumerGone     = "consumer_gone"
	DiskFull         = "disk_full"
	Certificate      = "certificate_expires"
	BurnRate         = "burn_rate"
	Imbalance        = "audit_imbalance"
	AdminKey         = "admin_key_created"
	BackupFails      = "backup_fails"
	KeyExpires       = "key_expires"
	ClientCert       = "client_certificate_expires"
)

// slack is the part of a threshold by which a value has to be better before an alert is resolved.
const slack = 0.1

var rules = []Rule{
	{Name: EndpointFailing, Title: "no attempt succeeds",
		About:   "Seconds since an attempt at the endpoint last succeeded, while attempts fail.",
		Tenants: true, Severity: grapnel.SeverityWarning, Unit: Seconds, Threshold: 120, Calm: time.Minute},
	{Name: EndpointDegraded, Title: "some first attempts fail",
		About:   "Percent of the first attempts of the last hour that failed, at an endpoint whose health is degraded: at least 5, of 10 or more, and 3 or more failed ones.",
		Tenants: true, Severity: grapnel.SeverityWarning, Unit: Percent, Threshold: 5, Calm: time.Minute, Backtest: true},
	{Name: CircuitOpen, Title: "circuit is open", About: "Seconds for which the endpoint's circuit has been open: its deliveries are held.",
		Tenants: true, Severity: grapnel.SeverityPage, Unit: Seconds, Threshold: 600, Calm: time.Minute},
	{Name: DisableSoon, Title: "will be disabled soon", About: "Percent of the way to being disabled, by the endpoint's policy.",
		Tenants: true, Severity: grapnel.SeverityWarning, Unit: Percent, Threshold: 75, Calm: time.Minute},
	{Name: EndpointDisabled, Title: "is disabled",
		About:   "Grapnel has disabled the endpoint: nothing is sent to it until a person enables it.",
		Tenants: true, Severity: grapnel.SeverityPage, Unit: Yes, Threshold: 1, Backtest: true},
	{Name: DeadLetter, Title: "a delivery has failed for good",
		About:   "Dead letters of one endpoint with one reason since the beginning of the hour before. The first is told, and further ones once an hour.",
		Tenants: true, Severity: grapnel.SeverityWarning, Unit: Number, Threshold: 1, Once: true, Hourly: true},
	{Name: FailedAttempts, Title: "a delivery keeps failing", About: "The most failed attempts of a delivery that is still pending at the endpoint.",
		Tenants: true, Severity: grapnel.SeverityWarning, Unit: Number, Threshold: 3, Calm: time.Minute, Off: true},
	{Name: DeadLetters, Title: "more dead letters than usual",
		About:   "Dead letters of the last hour, compared with the mean of an hour of the 28 days before. Fewer than 2 an hour count as 2.",
		Tenants: true, Operator: true, Severity: grapnel.SeverityWarning, Unit: Times, Threshold: 5, Calm: 10 * time.Minute,
		Backtest: true},
	{Name: BacklogAge, Title: "due deliveries wait",
		About:   "Seconds for which the oldest due delivery waits, at endpoints that are enabled and whose circuit is closed.",
		Tenants: true, Operator: true, Severity: grapnel.SeverityWarning, Unit: Seconds, Threshold: 60, Hold: 30 * time.Second,
		Calm: time.Minute},
	{Name: BacklogGrowth, Title: "the backlog grows",
		About:   "Pending deliveries, compared with those of 15 minutes ago. Fewer than 1,000 count as 1,000.",
		Tenants: true, Operator: true, Severity: grapnel.SeverityWarning, Unit: Times, Threshold: 3, Hold: time.Minute,
		Calm: 5 * time.Minute},
	{Name: FirstAttempts, Title: "fewer first attempts succeed than usual",
		About:   "Percentage points by which the success of first attempts in the last hour is below that of the 28 days before, from 50 first attempts an hour on. An attempt counts when it is made, not when its delivery ends.",
		Tenants: true, Severity: grapnel.SeverityWarning, Unit: Points, Threshold: 20, Calm: 10 * time.Minute, Backtest: true},
	{Name: SourceSilent, Title: "receives nothing",
		About:   "Seconds since the source received its last event. A source that never received one does not count.",
		Tenants: true, Severity: grapnel.SeverityWarning, Unit: Seconds, Threshold: 86_400, Hold: 30 * time.Minute},
	{Name: SignatureFails, Title: "requests fail verification",
		About:   "Requests to the source in the last hour whose signature could not be verified, as this node saw them.",
		Tenants: true, Severity: grapnel.SeverityWarning, Unit: Number, Threshold: 10, Calm: 10 * time.Minute},
	{Name: ConsumerGone, Title: "no consumer takes its messages",
		About:   "Seconds for which the queue's oldest message has been due while no consumer holds a lease.",
		Tenants: true, Severity: grapnel.SeverityPage, Unit: Seconds, Threshold: 300, Hold: time.Minute, Calm: 30 * time.Second},
	{Name: DiskFull, Title: "the disk is nearly full", About: "Percent of the disk with the store that is free; with PostgreSQL of --database-space.",
		Operator: true, Severity: grapnel.SeverityPage, Unit: Percent, Threshold: 15, Below: true, Hold: time.Minute,
		Calm: 5 * time.Minute},
	{Name: Certificate, Title: "the certificate expires",
		About:   "Days until the certificate that the endpoint showed at the last attempt that was looked at is invalid; for the operator, that at --public-url.",
		Tenants: true, Operator: true, Severity: grapnel.SeverityWarning, Unit: Days, Threshold: 14, Below: true},
	{Name: BurnRate, Title: "a promise is being broken",
		About:    "How many times faster than allowed the error budget of a promise is being used, in both windows of a pair. All promises are one alert.",
		Operator: true, Severity: grapnel.SeverityPage, Unit: Times, Threshold: 1, Calm: 5 * time.Minute},
	{Name: Imbalance, Title: "deliveries are not accounted for",
		About:    "Deliveries created minus those pending, finished and purged. Any value but 0 is a defect of Grapnel.",
		Operator: true, Severity: grapnel.SeverityPage, Unit: Number, Threshold: 1, Hold: time.Minute, Calm: time.Minute},
	{Name: BackupFails, Title: "backups fail",
		About:    "Scheduled backups that have failed since the last complete one.",
		Operator: true, Severity: grapnel.SeverityWarning, Unit: Number, Threshold: 1},
	{Name: AdminKey, Title: "an API key with all rights was created",
		About:    "An API key with the scope admin and without tenant was created in the last 24 hours.",
		Operator: true, Severity: grapnel.SeverityWarning, Unit: Yes, Threshold: 1, Once: true},
	{Name: KeyExpires, Title: "the API key ends", About: "Days until the API key ends and requests with it are refused.",
		Tenants: true, Operator: true, Severity: grapnel.SeverityWarning, Unit: Days, Threshold: 14, Below: true},
	{Name: ClientCert, Title: "the client certificate ends",
		About:   "Days until the client certificate ends that the endpoint's settings have: its receiver refuses connections from then on.",
		Tenants: true, Severity: grapnel.SeverityWarning, Unit: Days, Threshold: 14, Below: true},
}

// Rules lists all rules, in the order in which people see them.
func Rules() []Rule { return slices.Clone(rules) }

// RuleOf finds a rule by its name.
func RuleOf(name string) (*Rule, bool) {
	i := slices.IndexFunc(rules, func(r Rule) bool { return r.Name == name })
	if i < 0 {
		return nil, false
	}
	return &rules[i], true
}

// bad says whether a value is at the threshold or worse.
func (r *Rule) bad(value, threshold float64) bool {
	if r.Below {
		return value <= threshold
	}
	return value >= threshold
}

// worse is the worse of two values.
func (r *Rule) worse(a, b float64) float64 {
	if r.Below {
		return min(a, b)
	}
	return max(a, b)
}

// good says whether a value is clearly back. Between good and bad an alert stays as it is.
func (r *Rule) good(value, threshold float64) bool {
	if r.Below {
		return value > threshold*(1+slack)
	}
	return value < threshold*(1-slack)
}

// Setting is a change of a rule, for one tenant or for all. A nil field keeps what holds without
// it.
type Setting struct {
	Enabled   *bool    `json:"enabled,omitempty"`
	Threshold *float64 `json:"threshold,omitempty"`
	Severity  *string  `json:"severity,omitempty"`
}

// Encode is the body of the setting's document.
func (s Setting) Encode() []byte { return encode(s) }

// DecodeSetting reads the body of a setting's document.
func DecodeSetting(body []byte) (Setting, error) {
	return decode[Setting](body, "the stored setting of a rule")
}

// Over returns the setting with the fields of s that are set, and those of base for the others.
func (s Setting) Over(base Setting) Setting {
	return Setting{cmp.Or(s.Enabled, base.Enabled), cmp.Or(s.Threshold, base.Threshold), cmp.Or(s.Severity, base.Severity)}
}

// Settings are the changes of rules, by tenant and then by rule. Those of the tenant "" hold for
// the operator's alerts, and for those of every tenant that has not set the same field.
type Settings map[string]map[string]Setting

// InForce is a rule as it holds for one tenant.
type InForce struct {
	Enabled   bool
	Threshold float64
	Severity  string
}

// Of returns a rule as it holds for a tenant; empty: the operator.
func (s Settings) Of(r *Rule, tenant string) InForce {
	is := s[tenant][r.Name].Over(s[""][r.Name]).Over(Setting{new(!r.Off), &r.Threshold, &r.Severity})
	return InForce{*is.Enabled, *is.Threshold, *is.Severity}
}
