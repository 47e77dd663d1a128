package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel/internal/base/bounds"
	"github.com/grapnelhq/grapnel/internal/face/cli"
	"github.com/grapnelhq/grapnel/internal/face/mcp"
	"github.com/grapnelhq/grapnel/internal/proof/torture"
)

// agents are the flags of grapnel mcp.
type agents struct {
	mcp.Options
	mcp.Callers
	http, bound string
	torture     bool
}

func (s *session) mcpCommand() *cobra.Command {
	var a agents
	c := &cobra.Command{
		Use: "mcp", Short: "Let agents ask a server, over the Model Context Protocol", Args: takes(cobra.NoArgs),
		Long: "Serve tools to an agent over the Model Context Protocol, on standard input and output or with --http: explain a delivery, failures by " +
			"cause, find, health of endpoints, preview a replay, simulate and lint a policy. The tools ask the server with the API key, whose scopes " +
			"decide what they may do.\n\n" +
			"Without --allow-write no tool is listed that changes something (start a replay, send a test event), and without --allow-torture none that " +
			"sends requests to a receiver. Text in answers that others wrote (payloads, answers of receivers, names) stands between quotation marks.\n\n" +
			"Over HTTP agents connect to the path " + mcp.Path + ". At an address that others reach, they need the key of --http-key.",
		Example: "grapnel mcp\ngrapnel mcp --allow-write --context prod\ngrapnel mcp --http 127.0.0.1:8421\n" +
			"grapnel mcp --http 0.0.0.0:8421 --http-host mcp.example.com --http-key @mcp.key",
		RunE: func(cmd *cobra.Command, _ []string) error { return s.serveAgents(cmd.Context(), &a) },
	}
	f := c.Flags()
	f.BoolVar(&a.AllowWrite, "allow-write", false, "also list the tools that start replays and send test events")
	f.BoolVar(&a.torture, "allow-torture", false, "also list the tool that tortures receivers on this machine, with the secret in GRAPNEL_TORTURE_SECRET")
	f.StringSliceVar(&a.TortureHosts, "torture-host", nil, "host that may be tortured besides this machine; may be repeated")
	f.StringVar(&a.http, "http", "", "serve over streamable HTTP at this address instead of on standard input and output")
	f.StringSliceVar(&a.Hosts, "http-host", nil, "name by which agents reach the address; may be repeated")
	f.StringVar(&a.Key, "http-key", "", "key that agents send as a bearer token; or GRAPNEL_MCP_KEY")
	f.StringVar(&a.bound, "bound", "", "other limits, of: "+strings.Join(bounds.List(bounds.Fill(mcp.Bounds{})), ","))
	cli.Form(f, "HOST,…", "torture-host")
	cli.Form(f, "HOST,…", "http-host")
	cli.Form(f, "ADDRESS", "http")
	cli.Form(f, "TEXT|@FILE|-", "http-key")
	cli.Form(f, "NAME=VALUE,…", "bound")
	cli.Secret(f, "http-key")
	return c
}

// serveAgents serves until the input ends, or a signal.
func (s *session) serveAgents(ctx context.Context, a *agents) error {
	if err := bounds.Parse(a.bound, &a.Bounds); err != nil {
		return cli.Usagef("--bound: %v", err)
	}
	if len(a.TortureHosts) > 0 && !a.torture {
		return cli.Usagef("--torture-host goes with --allow-torture")
	}
	r, err := s.reader()
	if err != nil {
		return err
	}
	a.Client = r.Client
	if a.torture {
		secret, err := s.SecretVariable("GRAPNEL_TORTURE_SECRET")
		if err != nil {
			return err
		}
		a.Torture = torturer(secret)
	}
	if a.http == "" {
		if len(a.Hosts) > 0 || a.Key != "" {
			return cli.Usagef("--http-host and --http-key go with --http")
		}
		return mcp.New(a.Options).ServeStreams(ctx, closable(s.Stdin), unclosed{s.Stdout})
	}
	listener, err := s.listenForAgents(ctx, a)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(s.Stdout, "Agents connect to http://%s%s\n", listener.Addr(), mcp.Path); err != nil {
		return err
	}
	return mcp.New(a.Options).ServeListener(ctx, listener, a.Callers)
}

// listenForAgents listens at the address. One that others reach needs a key.
func (s *session) listenForAgents(ctx context.Context, a *agents) (l net.Listener, err error) {
	a.http = cli.ListenAddress("127.0.0.1", a.http)
	host, _, err := net.SplitHostPort(a.http)
	if err != nil {
		return nil, cli.Usagef("--http: %q is not an address such as 127.0.0.1:8421", a.http)
	}
	if a.Key, err = s.Text("--http-key", a.Key); err != nil {
		return nil, err
	}
	if a.Key == "" {
		if a.Key, err = s.SecretVariable("GRAPNEL_MCP_KEY"); err != nil {
			return nil, err
		}
	}
	if !cli.Loopback(host) && len(a.Key) < leastKey {
		return nil, cli.Usagef("--http %s: others reach this address; give a key of %d characters or more with --http-key, or listen at 127.0.0.1",
			a.http, leastKey)
	}
	l, err = new(net.ListenConfig).Listen(ctx, "tcp", a.http)
	if err != nil {
		return nil, cli.Usagef("--http: %v", err)
	}
	return l, nil
}

const leastKey = 16 // characters of the key that agents send

// torturer sends the requests of the cases. Without a secret of the agent's it uses the operator's.
func torturer(secret string) func(context.Context, mcp.Trial, func(mcp.Case)) (*mcp.Verdict, error) {
	return func(ctx context.Context, t mcp.Trial, tell func(mcp.Case)) (*mcp.Verdict, error) {
		o := torture.Options{URL: t.URL, Secret: t.Secret, Scheme: torture.Standard(), Only: t.Only}
		if o.Secret == "" {
			o.Secret = secret
		}
		if o.Secret == "" {
			return nil, fmt.Errorf("secret: give the receiver's secret; GRAPNEL_TORTURE_SECRET is not set")
		}
		if t.Probe != "" {
			o.Probe = torture.HTTPProbe{URL: t.Probe}
		}
		cases, _, err := torture.Plan(o)
		if err != nil {
			return nil, fmt.Errorf("only: %w", err)
		}
		done := 0
		o.Tell = func(r *torture.Result) {
			done++
			tell(mcp.Case{ID: r.ID, Verdict: string(r.Verdict), Done: min(done, len(cases)), Of: len(cases)})
		}
		report, err := torture.Run(ctx, o)
		if err != nil {
			return nil, err
		}
		v := &mcp.Verdict{Passed: report.Passed, Failed: report.Failed, NotJudged: report.Skipped, Grade: report.Grade}
		for _, r := range report.Results {
			one := mcp.Case{ID: r.ID, Name: r.Name, Verdict: string(r.Verdict), Reason: r.Reason}
			for _, f := range r.Findings {
				one.Findings = append(one.Findings, f.Invariant+" broken: "+f.Defect+"\n"+strings.Join(f.Proof, "\n")+"\n"+f.Shown+"\n"+strings.Join(f.Fix, "\n"))
			}
			v.Cases = append(v.Cases, one)
		}
		return v, nil
	}
}

// closable is a stream that can be closed: closing standard input ends a read that waits.
func closable(in io.Reader) io.ReadCloser {
	if c, is := in.(io.ReadCloser); is {
		return c
	}
	return io.NopCloser(in)
}

// unclosed is a stream that stays open for what follows.
type unclosed struct{ io.Writer }

func (unclosed) Close() error { return nil }
