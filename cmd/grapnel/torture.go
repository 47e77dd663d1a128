package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel/internal/base/bounds"
	"github.com/grapnelhq/grapnel/internal/face/cli"
	"github.com/grapnelhq/grapnel/internal/proof/torture"
)

// torturing are the flags of grapnel torture.
type torturing struct {
	torture.Options
	profile, bound string
	probes         probing
	junit, html    string
	json           bool
	timeout        time.Duration
}

func (s *session) tortureCommand() *cobra.Command {
	var o torturing
	c := &cobra.Command{
		Use: "torture URL [-- COMMAND ARG…]", Short: "Find out whether a receiver of webhooks is right",
		Long: "Find out whether a receiver of webhooks is right: whether each event has exactly one effect, whatever a sender, the " +
			"network, an attacker or a crash does. It works with receivers in any language and needs no server.\n\n" +
			"The probe counts effects: a page of the receiver, a query or a program that answers a number, or JSON with effects, " +
			"state, version and amount, for {event} and for {key}. Without a probe only answers are judged. With a command it " +
			"starts, kills and restarts the receiver. A case that cannot be judged is listed with the reason.\n\n" +
			"It exits with 8 when it has found something, and with 1 when nothing could be judged. docs/torture.md describes each case, and " +
			"docs/receiving-safely.md how to write a receiver.",
		Example: "grapnel torture http://localhost:3000/hooks --secret @secret.txt --probe 'http://localhost:3000/_probe?event={event}&key={key}'\n" +
			"grapnel torture http://localhost:3000/hooks --secret @secret.txt --probe-sql 'select count(*) from ledger where event={event}' --dsn app.db -- node server.js\n" +
			"grapnel torture http://localhost:3000/hooks --secret @secret.txt --only T02,T17 --junit torture.xml --html torture.html",
		Args: func(cmd *cobra.Command, args []string) error {
			if dash := cmd.ArgsLenAtDash(); dash >= 0 {
				if len(args) == dash {
					return misused(cmd, "%s: a command must follow --", cmd.CommandPath())
				}
				args = args[:dash]
			}
			return takes(cobra.ExactArgs(1))(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o.URL, o.Command = args[0], args[1:]
			return s.torture(cmd.Context(), &o)
		},
	}
	f := c.Flags()
	f.StringVar(&o.Secret, "secret", "", "the receiver's secret; or GRAPNEL_TORTURE_SECRET")
	f.StringVar(&o.profile, "profile", "standard", "provider whose requests are sent, such as stripe or github; or a YAML file with the settings of hmac")
	cli.Form(f, "SCHEME|FILE.yaml", "profile")
	f.StringVar(&o.Body, "body", "", "payload of the receiver, with {event}, {key}, {type}, {amount}, {version}, {status}, {timestamp}, {occurred_at}")
	cli.Form(f, "TEXT|@FILE|-", "body")
	f.StringVar(&o.OtherURL, "other-url", "", "URL of the receiver's second source")
	f.StringVar(&o.Other, "other-secret", "", "secret of the second source; if not given, --secret")
	f.StringVar(&o.probes.url, "probe", "", "URL that answers the effects of {event} and of {key}")
	f.StringArrayVar(&o.probes.queries, "probe-sql", nil, "query for the effects of {event}, and again for {key}; needs --dsn")
	f.StringVar(&o.probes.dsn, "dsn", "", "database of --probe-sql: postgres://… or an SQLite file; or GRAPNEL_TORTURE_DSN")
	f.StringVar(&o.probes.command, "probe-cmd", "", "shell command that prints the effects of {event} and of {key}")
	f.StringVar(&o.FaultURL, "fault-url", "", "URL that makes the handler of {event} fail: {kind}, {times}, {ms}")
	f.StringVar(&o.ClockURL, "clock-url", "", "URL that sets the receiver's clock to {now}, in unix seconds; 0 is the real one")
	cli.DurationVar(f, &o.Bounds.AckBudget, "ack-budget", 5*time.Second, "time in which an answer must come")
	cli.DurationVar(f, &o.Bounds.ReplayAfter, "replay-after", 180*time.Hour, "time after which the sender may replay an event")
	f.StringSliceVar(&o.Only, "only", nil, "only these cases, such as T02,T17")
	f.StringVar(&o.Language, "language", "", "language of the remedies; if not given, guessed from the command or the answers")
	f.StringVar(&o.bound, "bound", "", "other limits, of: "+strings.Join(bounds.List(bounds.Fill(torture.Bounds{})), ","))
	f.StringVar(&o.junit, "junit", "", "also write the result as JUnit XML to this file")
	f.StringVar(&o.html, "html", "", "also write a report as one HTML file")
	f.BoolVar(&o.json, "json", false, "print the whole report as JSON; the same as -o json")
	cli.DurationVar(f, &o.timeout, "timeout", 5*time.Minute, "give up after this time")
	s.confirmed(c)
	for _, secret := range []string{"secret", "other-secret", "dsn"} {
		cli.Form(f, "TEXT|@FILE|-", secret)
	}
	cli.Secret(f, "secret", "other-secret", "dsn")
	c.MarkFlagsMutuallyExclusive("probe", "probe-sql", "probe-cmd")
	cli.Form(f, "go|typescript|python", "language")
	cli.Form(f, "NAME=VALUE,…", "bound")
	cli.Form(f, "FILE", "junit")
	cli.Form(f, "FILE", "html")
	return c
}

func (s *session) torture(ctx context.Context, o *torturing) error {
	if o.json {
		s.output = cli.JSON
	}
	p, err := s.NewPrinter(s.output, s.jq)
	if err != nil {
		return err
	}
	if err := s.tortureOptions(o); err != nil {
		return err
	}
	probe, end, err := o.probes.open(ctx, s.World)
	if err != nil {
		return err
	}
	defer end()
	o.Probe = probe
	cases, requests, err := torture.Plan(o.Options)
	if err != nil {
		return cli.Usagef("--only: %v", err)
	}
	plan := fmt.Sprintf("%d cases, up to %d requests, up to %v", len(cases), requests, o.timeout)
	for _, target := range []string{o.URL, o.OtherURL} {
		if target != "" && !near(ctx, target) {
			if err := s.Confirm("Send %s, many of them malformed or forged, to the public address of %s?", plan, target); err != nil {
				return err
			}
		}
	}
	paint := func(_, text string) string { return text }
	if s.Colour(s.Stdout) {
		paint = cli.Paint
	}
	signal.Ignore(syscall.SIGPIPE) // it would end this process, and leave the receiver running
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	progress := s.Progress()
	done := 0
	o.Tell = func(r *torture.Result) {
		if done++; p.Machine() {
			progress.Say("%s %s (%d of %d)", r.ID, r.Verdict, min(done, len(cases)), len(cases))
			return
		}
		if _, err := fmt.Fprint(s.Stdout, r.Line(paint)); err != nil {
			stop(fmt.Errorf("the result cannot be written: %w", err))
		}
	}
	s.Note("receiver %s  %s", o.URL, plan)
	report, err := torture.Run(ctx, o.Options)
	progress.Done()
	switch {
	case errors.Is(err, torture.ErrNotJudged):
		return &cli.Fault{Exit: cli.ExitFailure, Code: "not_judged", Text: err.Error()}
	case err != nil:
		return err
	}
	return s.tortured(p, o, report, paint)
}

// tortureOptions completes and checks the flags.
func (s *session) tortureOptions(o *torturing) (err error) {
	for name, target := range map[string]string{"URL": o.URL, "--other-url": o.OtherURL, "--probe": o.probes.url,
		"--fault-url": o.FaultURL, "--clock-url": o.ClockURL} {
		u, err := url.Parse(strings.NewReplacer("{", "", "}", "").Replace(target))
		if target != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
			return cli.Usagef("%s: %q is not a URL such as http://localhost:3000/hooks", name, target)
		}
	}
	if o.Language != "" && !slices.Contains(torture.Languages, o.Language) {
		return cli.Usagef("--language %s: languages are %s", o.Language, strings.Join(torture.Languages, ", "))
	}
	if err := bounds.Parse(o.bound, &o.Bounds); err != nil {
		return cli.Usagef("--bound: %v", err)
	}
	if o.Secret == "" {
		if o.Secret, err = s.SecretVariable("GRAPNEL_TORTURE_SECRET"); err != nil {
			return err
		}
	}
	for name, value := range map[string]*string{"--secret": &o.Secret, "--other-secret": &o.Other, "--dsn": &o.probes.dsn} {
		if *value, err = s.Text(name, *value); err != nil {
			return err
		}
	}
	if o.Secret == "" {
		return misused(s.command, "no secret: give --secret, or set GRAPNEL_TORTURE_SECRET")
	}
	if o.Body, err = s.Text("--body", o.Body); err != nil {
		return err
	}
	if o.Scheme, err = profileOf(o.profile, o.URL, o.Body, o.Secret); err != nil {
		return err
	}
	for name, secret := range map[string]string{"--secret": o.Secret, "--other-secret": o.Other} {
		if secret == "" {
			continue
		}
		if _, err := o.Scheme.Sign("msg_1", time.Now(), nil, []byte("{}"), secret); err != nil {
			return cli.Usagef("%s: %v", name, err)
		}
	}
	return nil
}

// tortured prints and writes the report.
func (s *session) tortured(p *cli.Printer, o *torturing, report *torture.Report, paint torture.Paint) error {
	doc := cli.Encode(report)
	if p.Machine() {
		v := cli.View{JSON: doc}
		for _, r := range report.Results {
			v.Items = append(v.Items, cli.Item{Name: r.ID, JSON: cli.Encode(r)})
		}
		if err := p.Print(v); err != nil {
			return err
		}
	} else if _, err := fmt.Fprintln(s.Stdout, report.Summary(paint)); err != nil {
		return err
	}
	for path, write := range map[string]func() ([]byte, error){o.junit: report.JUnit, o.html: report.HTML} {
		if path == "" {
			continue
		}
		text, err := write()
		if err == nil {
			err = os.WriteFile(path, text, 0o644) //nolint:gosec // a report is for others to read
		}
		if err != nil {
			return err
		}
	}
	switch {
	case report.Failed > 0:
		return cli.Findings("%d of %d cases failed", report.Failed, len(report.Results))
	case report.Passed == 0:
		return &cli.Fault{Exit: cli.ExitFailure, Code: "not_judged", Text: "no case could be judged"}
	}
	return nil
}

// near reports whether all addresses of a URL's host are on this machine or in a private network.
func near(ctx context.Context, target string) bool {
	u, err := url.Parse(target)
	if err != nil {
		return false
	}
	addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", u.Hostname())
	return err == nil && !slices.ContainsFunc(addresses, func(a netip.Addr) bool {
		a = a.Unmap()
		return !a.IsLoopback() && !a.IsPrivate() && !a.IsLinkLocalUnicast()
	})
}
