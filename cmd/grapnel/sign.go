package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel/internal/byhand"
	"github.com/grapnelhq/grapnel/internal/cli"
	"github.com/grapnelhq/grapnel/internal/scheme"
)

// signingKeyHelp is the help of --secret of commands that sign.
const signingKeyHelp = "the secret, or a private key in PEM where the scheme signs with one; may be repeated where a request has several signatures"

// signCommand signs one request.
func (s *session) signCommand() *cobra.Command {
	var g given
	var at cli.Moment
	var headersOnly bool
	c := &cobra.Command{
		Use: "sign SCHEME [FILE|-]", Short: "Sign a request as a provider does", Args: takes(cobra.RangeArgs(1, 2)),
		Long: "Sign a request as the provider of a scheme does, and print it as it is on the wire. The request is a file, standard input, or " +
			"a body with headers. The flags are those of grapnel sources create; grapnel trigger lists the schemes.",
		Example: "grapnel sign stripe --secret @stripe.secret --body @event.json --headers | curl -H @- --data-binary @event.json http://localhost:3000/hooks\n" +
			"grapnel sign standard request.http --secret @acme.secret > signed.http\n" +
			"grapnel sign hmac --secret @partner.secret --header X-Signature --prefix sha256= --body @event.json -H 'X-Event: paid'",
		RunE: s.withPrinter(func(_ context.Context, p *cli.Printer, args []string) error {
			v, err := s.verifyFlags(args[0])
			if err != nil {
				return err
			}
			r, err := g.request(s, args[1:])
			if err != nil {
				return err
			}
			moment := s.Now()
			if at.Pointer() != nil {
				moment = *at.Pointer()
			}
			before := r.Body
			if err := s.signRequest(&v, r, moment); err != nil {
				return err
			}
			s.notePublic(&v)
			if !headersOnly {
				return printRequest(s, p, r)
			}
			if string(before) != string(r.Body) {
				return cli.Usagef("--headers: the scheme %s signs within the body; print the whole request", v.Scheme)
			}
			raw, err := byhand.Write(&scheme.Webhook{Method: r.Method, URL: r.URL, Header: r.Header})
			if err != nil {
				return err
			}
			return s.printHeaders(string(raw))
		}),
	}
	bindVerify(c, signingKeyHelp)
	g.bind(c)
	c.Flags().Var(&at, "at", "time of the signature; now if not given")
	c.Flags().BoolVar(&headersOnly, "headers", false, "print the headers alone, for curl -H @-")
	return c
}

// printHeaders prints the headers of a request on the wire, except those of the connection.
func (s *session) printHeaders(raw string) error {
	_, raw, _ = strings.Cut(raw, "\r\n")
	for line := range strings.SplitSeq(strings.TrimSpace(raw), "\r\n") {
		if strings.HasPrefix(line, "Host:") || strings.HasPrefix(line, "Content-Length:") {
			continue
		}
		if _, err := fmt.Fprintln(s.Stdout, line); err != nil {
			return err
		}
	}
	return nil
}

// verifyCommand verifies one request, and says why it does not.
func (s *session) verifyCommand() *cobra.Command {
	var g given
	var at cli.Moment
	c := &cobra.Command{
		Use: "verify SCHEME [FILE|-]", Short: "Verify a request, and say why it does not verify", Args: takes(cobra.RangeArgs(1, 2)),
		Long: "Verify a request as a source of the scheme does. If it does not verify, undo usual changes until it does, and name them: the " +
			"body was parsed and written again, trimmed or re-encoded; the clock is off; the key was not decoded; the signature is in " +
			"another encoding or covers something else; a proxy renamed a header. Exits with 8 if the request does not verify.\n\n" +
			"The request is a file as it is on the wire, standard input, or a body with headers. The flags are those of grapnel sources create.",
		Example: "grapnel verify stripe request.http --secret @stripe.secret\n" +
			"grapnel verify github --secret @github.secret --body @body.json -H 'X-Hub-Signature-256: sha256=…'\n" +
			"grapnel verify standard request.http --secret @new.secret --secret @old.secret --at 2026-11-28T12:00:00Z -o json",
		RunE: s.withPrinter(func(_ context.Context, p *cli.Printer, args []string) error {
			v, err := s.verifyFlags(args[0])
			if err != nil {
				return err
			}
			r, err := g.request(s, args[1:])
			if err != nil {
				return err
			}
			moment := s.Now()
			if at.Pointer() != nil {
				moment = *at.Pointer()
			}
			if len(v.Secrets) == 0 && v.Scheme != "none" {
				return misused(s.command, "%s needs --secret", s.command.CommandPath())
			}
			report, err := byhand.Explain(&v, r, moment)
			if err != nil {
				return cli.Usagef("%s: %v", args[0], err)
			}
			if err := p.Print(reportView(report)); err != nil || report.Verified {
				return err
			}
			return cli.Findings("the request does not verify: %s", report.Reasons[0].Detail)
		}),
	}
	bindVerify(c, "the receiver's secret or public key; may be repeated: a check says which one matches")
	g.bind(c)
	c.Flags().Var(&at, "at", "verify as of this time; now if not given")
	return c
}

func reportView(report *byhand.Report) cli.View {
	checks := cli.Part{Title: "Checks", Head: []string{"PASSED", "CHECK"}}
	for _, c := range report.Checks {
		checks.Rows = append(checks.Rows, []string{yesNo(c.Passed), c.Text})
	}
	view := cli.View{JSON: cli.Encode(report), Parts: []cli.Part{checks}}
	for _, r := range report.Reasons {
		view.Items = append(view.Items, cli.Item{Name: r.Kind, JSON: cli.Encode(r)})
		view.Parts = append(view.Parts, cli.Part{Title: "Why: " + r.Kind, Rows: [][]string{{"what", r.Detail}, {"fix", r.Fix}}})
	}
	if report.Verified {
		view.Items = []cli.Item{{Name: "verified", JSON: view.JSON}}
		view.Parts = append(view.Parts, cli.Part{Rows: [][]string{{"verified", "yes"}}})
	}
	return view
}
