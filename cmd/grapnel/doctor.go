package main

import (
	"cmp"
	"context"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/say"
	"github.com/grapnelhq/grapnel/internal/face/cli"
	"github.com/grapnelhq/grapnel/internal/server"
	"github.com/grapnelhq/grapnel/internal/tell/doctor"
)

func (s *session) doctorCommand() *cobra.Command {
	var f serveFlags
	var urls []string
	var b doctor.Bounds
	c := &cobra.Command{
		Use: "doctor", Short: "Find faults of an installation, and say what to do",
		Long: "Look at settings, files, disk, clock, network, certificates, keys and the database of a server with the settings that " +
			"grapnel serve would have here, and say of each fault why it matters and what to do. A server may run; " +
			"without one, endpoints and keys are not looked at. It changes nothing. Run it as the user of the server. " +
			"Exits with 8 when it finds something.",
		Example: "grapnel doctor\n" +
			"grapnel doctor --config /etc/grapnel.yaml --url https://hooks.example.com/health -o json",
	}
	flags := c.Flags()
	f.add(flags)
	// serve has these in its help; a fault among them is a finding
	cli.Conceal(flags, "config", "store", "store-password-file", "store-password-command", "listen")
	cli.Unsettled(flags)
	flags.StringArrayVar(&urls, "url", nil, "URL of your own, to try egress and the clock with; can be given several times")
	flags.IntVar(&b.Days, "days", 14, "certificates and keys that end within so many days are findings")
	flags.IntVar(&b.Free, "free", 10, "percent of the disk that must be free")
	cli.DurationVar(flags, &b.Sync, "sync", 20*time.Millisecond, "longest time of a write with its sync")
	c.RunE = s.withPrinter(func(ctx context.Context, p *cli.Printer, _ []string) error {
		if b.Days < 1 || b.Free < 1 || b.Free > 99 || b.Sync <= 0 {
			return cli.Usagef("--days, --free and --sync must be greater than 0, and --free less than 100")
		}
		subject, err := s.subject(urls, b)
		if err != nil {
			return err
		}
		r := doctor.Examine(ctx, subject)
		found := say.Many(len(r.Findings), "finding", "findings")
		return cmp.Or(p.Print(doctorView(&r)), cli.Findings("%s", found).If(len(r.Findings) > 0))
	})
	return c
}

// doctorView is a report with a paragraph for each finding.
func doctorView(r *doctor.Report) cli.View {
	view := list(cli.Encode(r), nil, r.Findings, func(f *doctor.Finding) []string { return []string{f.Check} })
	view.Parts = nil
	for _, f := range r.Findings {
		view.Parts = append(view.Parts, cli.Part{Title: f.Level + ": " + f.What + " [" + f.Check + "]", Text: f.Why + "\nTo do: " + f.Do})
	}
	text := say.Many(r.Checks-len(r.Skipped), "check", "checks") + ", " + say.Many(len(r.Findings), "finding", "findings")
	if len(r.Skipped) > 0 {
		text += "; " + say.Count(len(r.Skipped)) + " skipped, -o json says why"
	}
	view.Parts = append(view.Parts, cli.Part{Text: text})
	return view
}

// subject is the installation that grapnel serve would have here.
func (s *session) subject(urls []string, b doctor.Bounds) (*doctor.Subject, error) {
	zone, _ := s.Lookup("TZ")
	d := &doctor.Subject{Bounds: b, System: doctor.Here(), Zone: zone, Program: grapnel.Version, Now: time.Now,
		Lookup: func(ctx context.Context, host string) ([]netip.Addr, error) {
			return (&net.Resolver{PreferGo: true}).LookupNetIP(ctx, "ip", host) // as deliveries do
		}}
	for _, text := range urls {
		var u cli.Address
		if err := u.Set(text); err != nil {
			return nil, cli.Usagef("--url: %v", err)
		}
		d.URLs = append(d.URLs, u.URL)
	}
	f := s.settleFor(d)
	for _, w := range s.unknownVariables(s.command.Root()) {
		d.Unknown = append(d.Unknown, doctor.Fault{Where: w.Where, Detail: w.Detail})
	}
	d.Listen, d.PublicURL, d.Allow = cli.ListenAddress("", f.Listen), f.public.URL, f.EgressAllow
	d.Database = strings.TrimPrefix(server.DefaultStore, "sqlite:")
	if path, is := strings.CutPrefix(f.Store, "sqlite:"); is && path != "" {
		d.Database = filepath.Clean(path)
	}
	d.Dir = filepath.Dir(d.Database)
	if _, err := server.ParseStore(f.Store); err == nil {
		d.Schema = func(ctx context.Context) error { _, err := server.Schema(ctx, &f.Options); return err }
		if !strings.HasPrefix(f.Store, "sqlite:") {
			d.Database = ""
			d.Postgres = doctor.Postgres(f.Store, f.StorePassword)
		}
	}
	at := s.server
	if !s.command.Flags().Changed("server") {
		at = "http://" + reachable(d.Listen) // where a server that speaks HTTPS answers probes too
	}
	if f.TLS.Cert != "" {
		d.Certificates, d.CertificateKeys = []string{f.TLS.Cert}, []string{f.TLS.Key}
	}
	http, err := cli.Trusting(s.ca)
	if err != nil {
		return nil, err
	}
	if d.Probe, err = client.New(client.Options{Server: at, HTTP: http, Timeout: s.timeout, Retries: -1}); err != nil {
		return nil, cli.Usagef("--server: %v", err)
	}
	secure := f.TLS.Cert != "" || len(f.TLS.Domains) > 0
	if secure && d.PublicURL != nil && !s.command.Flags().Changed("server") {
		at = d.PublicURL.String() // requests with a key need HTTPS, by the name in the certificate
	}
	key := s.keyFor(at, d.Dir)
	if secure && !strings.HasPrefix(at, "https://") {
		key = "" // it would travel in the clear
	}
	d.Client, err = client.New(client.Options{Server: at, HTTP: http, Timeout: s.timeout, Key: key})
	return d, err
}

// keyFor is the key of the flags or variables, else that in a data directory, which only a server
// on this machine may see.
func (s *session) keyFor(at, dir string) string {
	admin, _ := s.SecretVariable("GRAPNEL_ADMIN_KEY")
	if key, _ := s.givenKey(); key != "" {
		return key
	}
	u, err := url.Parse(at)
	if err != nil || !cli.Loopback(u.Hostname()) {
		return ""
	}
	text, _ := os.ReadFile(filepath.Join(dir, "admin.key"))
	return cmp.Or(admin, strings.TrimSpace(string(text)))
}

// settleFor gives settings their values as serve would, but for those at fault, which it notes.
func (s *session) settleFor(d *doctor.Subject) *serveFlags {
	var f *serveFlags
	fresh := func() (*pflag.FlagSet, func() error) {
		one, flags := &serveFlags{}, pflag.NewFlagSet("serve", pflag.ContinueOnError)
		one.add(flags)
		if f == nil { // the first has all settings together
			f = one
			flags.ParseErrorsAllowlist.UnknownFlags = true // doctor's own
			_ = flags.Parse(s.Args)                        // cobra has parsed them already
		}
		return flags, func() error { return one.check(s) }
	}
	path := s.command.Flags().Lookup("config").Value.String()
	if path == "" {
		path, _ = s.Lookup("GRAPNEL_CONFIG")
	}
	for _, w := range s.CheckFile(path, fresh) {
		d.Faults = append(d.Faults, doctor.Fault{Where: w.Where, Detail: w.Detail})
	}
	return f
}
