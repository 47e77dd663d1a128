package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel/internal/face/cli"
)

// signingKeyHelp is the help of --secret of commands that sign.
const signingKeyHelp = "the secret, or a private key in PEM where the scheme signs with one; may be repeated where a request has several signatures"

// signCommand signs one request.
func (s *session) signCommand() *cobra.Command {
	var g given
	var headersOnly bool
	c := &cobra.Command{
		Use: "sign SCHEME [FILE|-]", Short: "Sign a request as a provider does",
		Long: "Sign a request as the provider of a scheme does, and print it as it is on the wire. The request is a file, standard input, or " +
			"a body with headers. The flags are those of grapnel sources create; grapnel trigger lists the schemes.",
		Example: "grapnel sign stripe --secret @stripe.secret --body @event.json --headers | curl -H @- --data-binary @event.json http://localhost:3000/hooks\n" +
			"grapnel sign standard request.http --secret @acme.secret > signed.http\n" +
			"grapnel sign hmac --secret @partner.secret --header X-Signature --prefix sha256= --body @event.json -H 'X-Event: paid'",
		RunE: s.withPrinter(func(_ context.Context, p *cli.Printer, args []string) error {
			v, r, at, err := g.read(s, args)
			if err != nil {
				return err
			}
			before := r.Body
			if err := s.signRequest(&v, r, at); err != nil {
				return err
			}
			s.notePublic(&v)
			if !headersOnly {
				return printRequest(s, p, r)
			}
			if string(before) != string(r.Body) {
				return cli.Usagef("--headers: the scheme %s signs within the body; print the whole request", v.Scheme)
			}
			return s.printHeaders(r.Header)
		}),
	}
	bindVerify(c, signingKeyHelp)
	g.bind(c, "time of the signature; now if not given")
	c.Flags().BoolVar(&headersOnly, "headers", false, "print the headers alone, for curl -H @-")
	return c
}

// printHeaders prints the headers of a request, except those of the connection.
func (s *session) printHeaders(headers http.Header) error {
	var lines strings.Builder
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		for _, value := range headers[name] {
			if name != "Host" && name != "Content-Length" {
				fmt.Fprintf(&lines, "%s: %s\n", name, value)
			}
		}
	}
	_, err := io.WriteString(s.Stdout, lines.String())
	return err
}
