package main

import (
	"context"
	"errors"
	"io"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/seal"
	"github.com/grapnelhq/grapnel/internal/base/trace"
	"github.com/grapnelhq/grapnel/internal/face/cli"
	"github.com/grapnelhq/grapnel/internal/send/egress"
	"github.com/grapnelhq/grapnel/internal/server"
	"github.com/grapnelhq/grapnel/policy"
)

// heapFloor is memory that is never touched: it costs none, but counts as live when the collector
// decides when to run next. Live data are small and throughput is large; without it the collector
// would run every few MiB. A higher GOGC would do the same for a small heap, but let a large one
// grow several-fold. With a lower one a large heap peaks lower, by some 25 MiB after a burst of
// 100,000 events, and a usual one is collected as often.
const (
	heapFloor  = 64 << 20
	heapGrowth = 75 // percent; GOGC in the environment takes its place
)

// runServer opens a server and runs it until ctx ends. started is called once it accepts requests.
func (s *session) runServer(ctx context.Context, o server.Options, started func(*server.Server) error) error {
	// If the reader of the log ends, a line is lost. By default Go would end the process.
	signal.Ignore(syscall.SIGPIPE)
	floor := make([]byte, heapFloor)
	defer runtime.KeepAlive(floor)
	if os.Getenv("GOGC") == "" {
		defer debug.SetGCPercent(debug.SetGCPercent(heapGrowth))
	}
	if os.Getenv("GOMAXPROCS") == "" && strings.HasPrefix(o.Store, "sqlite:") {
		// The writer syncs the disk for a third of the time. The scheduler of Go notices after up to 10
		// ms that the writer's processor is unused meanwhile, so one more keeps all of them in use.
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 1))
	}
	// net/http writes receivers' bytes to the standard log when a connection misbehaves. Our logs
	// must not have them; the attempt's record says how it ended.
	log.SetOutput(io.Discard)
	srv, err := server.Open(ctx, o)
	switch {
	case ctx.Err() != nil && (grapnel.CodeOf(err) == grapnel.CodeUnavailable || errors.Is(err, context.Canceled)):
		return nil // stopped while it waited for its database
	case err != nil:
		return err
	}
	var failed error
	running, stop := context.WithCancel(ctx)
	defer stop()
	var watching sync.WaitGroup
	defer watching.Wait()
	err = srv.Run(running, func() {
		if failed = started(srv); failed != nil {
			stop()
			return
		}
		watching.Go(func() { s.supervisor(o.Log).watch(running, srv) })
	})
	stop()
	if failed != nil && ctx.Err() == nil { // a signal to stop while starting is not a failure
		return failed
	}
	return err
}

// announce prints the one line that says that requests are accepted, and where.
func (s *session) announce(srv *server.Server) error {
	if key := srv.AdminKey(); key.Made {
		path, err := filepath.Abs(key.Path)
		if err != nil {
			return err
		}
		s.Note("The admin key was written to %s. To use it: export GRAPNEL_KEY_FILE=%s", key.Path, path)
	}
	form := s.output
	if s.LogsJSON() && form == cli.Table {
		form = cli.Lines
	}
	p, err := s.NewPrinter(form, s.jq)
	if err != nil {
		return err
	}
	doc := cli.Encode(map[string]string{"url": srv.URL()})
	return p.Print(single(srv.URL(), doc, cli.Part{Rows: [][]string{{"Grapnel accepts requests at " + srv.URL()}}}))
}

// serveFlags are the settings of a server. Most flags write its options; of the fields here, the
// method options makes the others.
type serveFlags struct {
	server.Options
	config, logFormat, logLevel, bounds string
	masterKey                           string
	public                              cli.Address
	proxy                               cli.Proxy
	dashboard, statusPage               bool
	people                              peopleFlags
	tls                                 tlsFlags
	least                               slog.LevelVar // of the log; options sets it
}

// reloaded are the settings of which a running server takes a change over (server.Change).
var reloaded = []string{"log-level", "egress-allow", "https-only", "trusted-proxies", "max-pending", "max-endpoints", "max-types",
	"max-publish-rate", "max-events-per-day", "consent", "retention", "retention-rule"}

func (f *serveFlags) add(flags *pflag.FlagSet) {
	f.MaxEvent, f.MaxBody = server.DefaultMaxEvent, server.DefaultMaxBody
	flags.StringVar(&f.config, "config", "", "YAML file with settings")
	flags.StringVar(&f.Listen, "listen", server.DefaultListen,
		"address to accept requests at; a port alone is that port of all the machine's addresses")
	f.tls.add(flags, &f.Options)
	f.Store = server.DefaultStore
	flags.Var((*cli.Store)(&f.Store), "store", "database of the server")
	flags.StringVar(&f.StorePassword.File, "store-password-file", "", "file with the password of the PostgreSQL database, read for each connection")
	flags.StringVar(&f.StorePassword.Command, "store-password-command", "",
		"program that prints the password of the PostgreSQL database, run without a shell for new connections")
	cli.Form(flags, "PATH", "store-password-file")
	cli.Form(flags, "PROGRAM", "store-password-command")
	flags.StringVar(&f.masterKey, "master-key", "", "where the master key is that seals the secrets in the database; empty: they are in clear")
	flags.BoolVar(&f.SealPayloads, "encrypt-payloads", false,
		"seal new payloads in the database, too: data of events, captured requests, answers of receivers; needs --master-key")
	cli.Form(flags, "file:PATH|env:NAME|credential:NAME|age:PATH|command:PROGRAM", "master-key")
	flags.StringVar(&f.Name, "name", "", "name of the installation, which its keys and portal links carry; the same at all its nodes")
	cli.DurationVar(flags, &f.Lease, "lease", server.DefaultLease, "how long a dead node keeps its endpoints, with several on one database")
	flags.StringVar(&f.Advertise, "advertise", "", "HOST:PORT at which other nodes reach this one; empty: that of --listen")
	cli.DurationVar(flags, &f.DrainTimeout, "drain-timeout", server.DefaultDrainTimeout, "how long attempts in flight may take after a stop")
	flags.Var((*cli.Networks)(&f.EgressAllow), "egress-allow", "addresses that deliveries may reach although they are not public")
	flags.Var(&f.proxy, "egress-proxy", "forward proxy of all deliveries; empty: none")
	flags.Var(&f.public, "public-url", "public address of this server, with its path, for links in answers; endpoints may not lead there")
	flags.Var((*cli.Networks)(&f.Proxies), "trusted-proxies",
		"address ranges of proxies whose X-Forwarded-For, -Proto, -Host and -Prefix are believed")
	flags.BoolVar(&f.HTTPSOnly, "https-only", false, "refuse endpoints with http:// URLs")
	flags.BoolVar(&f.MetricsOpen, "metrics-open", false, "show /metrics without a key")
	flags.BoolVar(&f.SvixAPI, "svix-api", false, "serve the API of Svix at /api/v1 for its SDKs, and show secrets of endpoints again")
	flags.BoolVar(&f.dashboard, "dashboard", true, "serve the dashboard at /; false: only the API")
	flags.BoolVar(&f.statusPage, "status-page", true, "serve the public status page at /status")
	flags.Var((*cli.Size)(&f.MaxEvent), "max-event", "largest data of one event")
	flags.Var((*cli.Size)(&f.MaxBody), "max-body", "largest body of a request to a source")
	cli.DurationVar(flags, &f.MaxAhead, "max-ahead", server.DefaultMaxAhead, "how far ahead deliver_at of an event may be")
	flags.Var((*cli.Size)(&f.DatabaseSpace), "database-space",
		"space that a PostgreSQL database may use, for the alert disk_full; none without it")
	flags.IntVar(&f.MaxInFlight, "max-in-flight", server.DefaultMaxInFlight, "attempts at once")
	flags.IntVar(&f.MaxPerHost, "max-per-host", 0, "attempts of one tenant at once at one host and port; 0: half of --max-in-flight")
	flags.Int64Var(&f.MaxPending, "max-pending", server.DefaultMaxPending, "pending deliveries of one tenant; 0: no limit")
	flags.IntVar(&f.MaxEndpoints, "max-endpoints", server.DefaultMaxEndpoints, "endpoints and queues of one tenant; 0: no limit")
	flags.IntVar(&f.MaxTypes, "max-types", server.DefaultMaxTypes, "event types that one tenant may publish; 0: no limit")
	flags.Var(&cli.Rate{Into: &f.PublishRate}, "max-publish-rate", "events per second that one tenant may publish, and at once; counted by each node")
	flags.Int64Var(&f.EventsPerDay, "max-events-per-day", 0, "events that one tenant may publish on one day (UTC); 0: no limit")
	flags.StringVar((*string)(&f.Consent), "consent", string(grapnel.ConsentOff),
		"required: a new address of an endpoint gets nothing until it has answered a challenge")
	cli.Form(flags, "off|required", "consent")
	flags.StringArrayVar(&f.OutboxFiles, "outbox-file", nil,
		"SQLite database of a producer, which a source with the outbox sqlite:PATH may read and remove events from; may be repeated")
	cli.DurationVar(flags, &f.Retention, "retention", server.DefaultRetention, "how long finished deliveries and their events are retained")
	flags.Var((*cli.KeepRules)(&f.Rules), "retention-rule",
		"another retention, such as tenant=acme,type=invoice.*,for=90d; the first match counts")
	flags.StringVar(&f.Backups.Dir, "backup-dir", "", "directory for backups that the server makes by itself; empty: none")
	cli.DurationVar(flags, &f.Backups.Every, "backup-every", server.DefaultBackupEvery, "time from one backup to the next")
	flags.IntVar(&f.Backups.Keep, "backup-keep", server.DefaultBackupKeep, "how many complete backups stay; older ones are removed")
	f.people.add(flags)
	flags.StringVar(&f.logFormat, "log-format", "text", "form of the log")
	flags.StringVar(&f.logLevel, "log-level", "info", "least level of the log")
	flags.StringVar(&f.bounds, "bounds", "", "sizes and time limits inside the server, for tests: ROOM.NAME=VALUE,… or tiny:SEED")
	cli.Form(flags, "text|json", "log-format")
	cli.Form(flags, "debug|info|warn|error", "log-level")
	_ = flags.MarkHidden("bounds")
	flags.BoolVar(&f.Silent, "silent", false, "count nothing and evaluate no alerts, to measure what that costs")
	_ = flags.MarkHidden("silent")
	var settings []string
	flags.VisitAll(func(flag *pflag.Flag) { settings = append(settings, flag.Name) })
	cli.FromVariables(flags, settings...)
	cli.FromFile(flags, slices.DeleteFunc(settings, func(name string) bool { return name == "config" })...)
	cli.Secret(flags, "store", "store-password-command", "master-key", "egress-proxy") // URLs may have passwords in them
	cli.Reloads(flags, reloaded...)
}

// options makes a server's options, or returns the faults of all settings, joined.
func (f *serveFlags) options(s *session) (server.Options, error) {
	var faults cli.Faults
	least, err := cli.LogLevel(f.logFormat, f.logLevel)
	faults.Add(err)
	f.least.Set(least)
	if faults.When(f.Store == "", "--store: it must not be empty; leave it out for %s", server.DefaultStore) {
		// of a variable that is not set, perhaps: the default would be another database
	} else if _, err := server.ParseStore(f.Store); err != nil {
		faults.Add(err)
	}
	faults.When(f.Name != "" && !grapnel.ValidName(f.Name), "--name %q: it must be 1 to %d of a-z and 0-9", f.Name, grapnel.MaxNameLength)
	faults.When(f.DrainTimeout <= 0, "--drain-timeout %v: it must be greater than 0", f.DrainTimeout)
	faults.When(f.Retention <= 0, "--retention %v: it must be greater than 0", f.Retention)
	faults.When(f.Backups.Every < server.LeastBackupEvery, "--backup-every %v: it must be at least %v", f.Backups.Every, server.LeastBackupEvery)
	faults.When(f.Backups.Keep < 1, "--backup-keep %d: it must be at least 1", f.Backups.Keep)
	faults.When(f.MaxInFlight < 1, "--max-in-flight %d: it must be at least 1", f.MaxInFlight)
	faults.When(f.MaxPerHost < 0, "--max-per-host %d: it must not be negative; 0 is half of --max-in-flight", f.MaxPerHost)
	faults.When(f.MaxPending < 0, "--max-pending %d: it must not be negative; 0 is no limit", f.MaxPending)
	faults.When(f.MaxEndpoints < 0, "--max-endpoints %d: it must not be negative; 0 is no limit", f.MaxEndpoints)
	faults.When(f.MaxTypes < 0, "--max-types %d: it must not be negative; 0 is no limit", f.MaxTypes)
	faults.When(f.MaxAhead <= 0 || f.MaxAhead > policy.MaxAge, "--max-ahead %s: it must be greater than 0, and at most %s", f.MaxAhead, policy.Duration(policy.MaxAge))
	faults.When(f.EventsPerDay < 0, "--max-events-per-day %d: it must not be negative; 0 is no limit", f.EventsPerDay)
	faults.When(f.Consent != grapnel.ConsentOff && f.Consent != grapnel.ConsentRequired, "--consent %q: it must be off or required", f.Consent)
	one := f.StorePassword
	faults.When(one.File != "" && one.Command != "", "--store-password-file and --store-password-command: give one of the two")
	faults.When(one.File+one.Command != "" && strings.HasPrefix(f.Store, "sqlite:"),
		"--store-password-file, --store-password-command: only a PostgreSQL database in --store has a password")
	o := f.Options
	if f.proxy != "" {
		o.EgressProxy, err = egress.ParseProxy(string(f.proxy))
		faults.When(err != nil, "--egress-proxy: it %v", err)
	}
	faults.Add(f.tls.options(&o))
	o.Bounds, err = server.ParseBounds(f.bounds)
	faults.Add(err)
	o.AdminKey, err = s.SecretVariable("GRAPNEL_ADMIN_KEY")
	faults.Add(err)
	n := len(o.AdminKey)
	faults.When(n > 0 && n < server.MinAdminKeyLen, "GRAPNEL_ADMIN_KEY has %d characters; it needs at least %d", n, server.MinAdminKeyLen)
	o.SessionKey, err = s.SecretVariable("GRAPNEL_SESSION_KEY")
	faults.Add(err)
	n = len(o.SessionKey)
	faults.When(n > 0 && n < server.MinSessionKeyLen, "GRAPNEL_SESSION_KEY has %d characters; it needs at least %d", n, server.MinSessionKeyLen)
	o.MasterKey, err = seal.ParseSource(f.masterKey)
	faults.Add(err)
	faults.When(o.SealPayloads && f.masterKey == "", "--encrypt-payloads: it needs --master-key")
	o.People, err = f.people.options(s, f.dashboard)
	faults.Add(err)
	o.Traces, err = trace.FromEnvironment(s.Lookup)
	faults.Add(err)
	if err := faults.Err(); err != nil {
		return server.Options{}, err
	}
	o.Listen, o.PublicURL = cli.ListenAddress("", f.Listen), f.public.URL
	o.NoDashboard, o.NoStatusPage = !f.dashboard, !f.statusPage
	return o, nil
}
