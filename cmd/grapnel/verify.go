package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel/internal/face/cli"
	"github.com/grapnelhq/grapnel/internal/inbound/byhand"
)

// verifyCommand verifies one request, and says why it does not.
func (s *session) verifyCommand() *cobra.Command {
	var g given
	c := &cobra.Command{
		Use: "verify SCHEME [FILE|-]", Short: "Verify a request, and say why it does not verify",
		Long: "Verify a request as a source of the scheme does. If it does not verify, undo usual changes until it does, and name them: the " +
			"body was parsed and written again, trimmed or re-encoded; the clock is off; the key was not decoded; the signature is in " +
			"another encoding or covers something else; a proxy renamed a header. Exits with 8 if the request does not verify.\n\n" +
			"The request is a file as it is on the wire, standard input, or a body with headers. The flags are those of grapnel sources create.",
		Example: "grapnel verify stripe request.http --secret @stripe.secret\n" +
			"grapnel verify github --secret @github.secret --body @body.json -H 'X-Hub-Signature-256: sha256=…'\n" +
			"grapnel verify standard request.http --secret @new.secret --secret @old.secret --at 2026-11-28T12:00:00Z -o json",
		RunE: s.withPrinter(func(_ context.Context, p *cli.Printer, args []string) error {
			v, r, at, err := g.read(s, args)
			if err != nil {
				return err
			}
			if len(v.Secrets) == 0 && v.Scheme != "none" {
				return misused(s.command, "%s needs --secret", s.command.CommandPath())
			}
			report, err := byhand.Explain(&v, r, at)
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
	g.bind(c, "verify as of this time; now if not given")
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
