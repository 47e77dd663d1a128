package server

import (
	"cmp"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel/policy"
	"github.com/grapnelhq/grapnel/wire"
)

// effective lists the settings in force, for the API. Each is named here, so a setting that is
// added to Options is not shown by itself: it may be a secret.
func (o *Options) effective() []wire.Setting {
	all := []wire.Setting{
		{Name: "listen", Value: o.Listen, Doc: "address of the server"},
		{Name: "store", Value: placeOf(o.Store), Doc: "database, without its credentials"},
	}
	add := func(name, value, doc string) { all = append(all, wire.Setting{Name: name, Value: value, Doc: doc}) }
	for _, c := range o.Cells {
		add("cell", c.Name+"="+placeOf(c.Store), "another store that is served")
	}
	span := func(d time.Duration) string { return policy.Duration(d).String() }
	number := func(n int64, zero string) string {
		if n == 0 {
			return zero
		}
		return fmt.Sprint(n)
	}
	all = append(all, wire.Setting{Name: "admin-key", Secret: true, Doc: "the first API key"})
	add("public-url", textOf(o.PublicURL), "base of links in answers")
	add("trusted-proxies", joined(o.Proxies), "proxies whose X-Forwarded-* headers are believed")
	add("egress-allow", joined(o.EgressAllow), "addresses that deliveries may reach although they are not public")
	add("https-only", fmt.Sprint(o.HTTPSOnly), "endpoints with http:// URLs are refused")
	add("metrics-open", fmt.Sprint(o.MetricsOpen), "/metrics needs no key")
	add("dashboard", fmt.Sprint(!o.NoDashboard), "the dashboard is served")
	add("status-page", fmt.Sprint(!o.NoStatusPage), "the public status page is served at /status")
	add("drain-timeout", span(o.DrainTimeout), "how long attempts in flight may take after a stop")
	add("max-event", fmt.Sprint(o.MaxEvent), "bytes of the data of one event")
	add("max-body", fmt.Sprint(o.MaxBody), "bytes of the body of a request to a source")
	add("database-space", number(o.DatabaseSpace, "unknown"), "bytes that each database of PostgreSQL may use, for the alert disk_full")
	add("max-in-flight", fmt.Sprint(o.MaxInFlight), "attempts at once, in each cell")
	add("max-per-host", number(int64(o.MaxPerHost), "half of max-in-flight"), "attempts of one tenant at once at one host and port")
	add("max-pending", number(o.MaxPending, "no limit"), "pending deliveries of one tenant")
	add("max-endpoints", number(int64(o.MaxEndpoints), "no limit"), "endpoints and queues of one tenant")
	add("max-types", number(int64(o.MaxTypes), "no limit"), "event types that one tenant may publish")
	add("retention", span(o.Retention), "how long finished deliveries and their events are retained")
	for _, r := range o.Rules {
		add("retention-rule", fmt.Sprintf("tenant=%s,type=%s,for=%s", cmp.Or(r.Tenant, "*"), cmp.Or(r.Type, "*"), span(r.For)), "another retention; the first that matches counts")
	}
	return all
}

func textOf(u *url.URL) string {
	if u == nil {
		return ""
	}
	return u.Redacted()
}

func joined[T fmt.Stringer](all []T) string {
	texts := make([]string, len(all))
	for i, one := range all {
		texts[i] = one.String()
	}
	return strings.Join(texts, ", ")
}

// placeOf is where a database is: no user, no password, no parameters, which can have either. A
// text of another form is not shown.
func placeOf(store string) string {
	if path, ok := strings.CutPrefix(store, "sqlite:"); ok {
		path, _, _ = strings.Cut(path, "?")
		return "sqlite:" + path
	}
	u, err := url.Parse(store)
	if err != nil || u.Scheme == "" || u.Host == "" {
		return "another database"
	}
	return u.Scheme + "://" + u.Host + u.Path
}
