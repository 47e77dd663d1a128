package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/trace"
	"github.com/grapnelhq/grapnel/internal/face/cli"
	"github.com/grapnelhq/grapnel/internal/proof/demo"
	"github.com/grapnelhq/grapnel/internal/server"
)

func (s *session) devCommand() *cobra.Command {
	var listen, data, level string
	var fresh, story, verbose bool
	c := &cobra.Command{
		Use: "dev", Short: "Run a server with demo receivers, to try it", Example: "grapnel dev\ngrapnel dev --fresh --verbose",
		Long: "Run a server on loopback with three demo receivers (healthy, flaky, and one with a bug), play a story of half a minute with " +
			"them, and print commands to try. Enter does the next step. " +
			"It has its own data; the settings of grapnel serve do not apply.",
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			listen = cli.ListenAddress("127.0.0.1", listen)
			host, _, err := net.SplitHostPort(listen)
			if err != nil || !cli.Loopback(host) {
				return cli.Usagef("--listen %s: dev is for this machine only; use an address such as 127.0.0.1:8420", listen)
			}
			if fresh {
				if data, err = os.MkdirTemp("", "grapnel-dev-"); err != nil {
					return fmt.Errorf("creating a directory for the data: %w", err)
				}
				defer func() { err = errors.Join(err, os.RemoveAll(data)) }()
			}
			least, err := cli.LogLevel("text", level)
			if err != nil {
				return err
			}
			traces, err := trace.FromEnvironment(s.Lookup)
			if err != nil {
				return err
			}
			o := server.Options{
				Traces: traces, Settings: cli.Shown(cmd),
				Listen: listen, Store: "sqlite:" + filepath.Join(data, "grapnel.db"), DrainTimeout: 5 * time.Second, Log: s.Logger("text", least),
				EgressAllow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")},
			}
			return s.demonstrate(cmd.Context(), o, demonstration{anyPort: !cmd.Flags().Changed("listen"), story: story, verbose: verbose})
		},
	}
	c.Flags().StringVar(&listen, "listen", server.DefaultListen, "address to accept requests at; a free port when this one is taken")
	c.Flags().StringVar(&data, "data", filepath.Dir(cli.DevKeyFile), "directory for the data; commands find the key in the default one")
	c.Flags().BoolVar(&fresh, "fresh", false, "store the data in a temporary directory and delete it at the end")
	c.Flags().BoolVar(&story, "story", true, "play the story; false: the receivers only")
	c.Flags().BoolVar(&verbose, "verbose", false, "show the bodies that the receivers get")
	c.Flags().StringVar(&level, "log-level", "warn", "debug, info, warn or error")
	return c
}

type demonstration struct {
	anyPort bool // another port will do if this one is taken
	story   bool // play it
	verbose bool // show bodies
}

// demonstrate runs the server and the receivers.
func (s *session) demonstrate(ctx context.Context, o server.Options, with demonstration) (err error) {
	receivers, err := demo.Open(ctx, func(r demo.Receipt) {
		if s.Note("%s", r); with.verbose {
			s.Note("        %s", r.Body)
		}
	})
	if err != nil {
		return err
	}
	shown := &coach{receivers: receivers, program: s.Program}
	codes := server.NewLoginCodes()
	o.Dev.Codes, o.Dev.Receiver = codes, receivers.AnythingURL()
	if with.story {
		o.Dev.Coach = shown
	}
	left := "" // the file with the URL
	var story sync.WaitGroup
	defer func() {
		story.Wait() // it ends with ctx, or with its last step
		err = errors.Join(err, receivers.Close())
		if left != "" {
			err = errors.Join(err, os.Remove(left))
		}
	}()
	started := func(srv *server.Server) error {
		at := filepath.Join(filepath.Dir(srv.AdminKey().Path), cli.DevURL)
		if err := os.WriteFile(at, []byte(srv.URL()+"\n"), 0o600); err != nil {
			return fmt.Errorf("commands here would not find the demo's key: %w", err)
		}
		left = at
		if err := s.announce(srv); err != nil {
			return err
		}
		secret, err := os.ReadFile(srv.AdminKey().Path)
		if err != nil {
			return fmt.Errorf("the demo needs the admin key in its file: %w", err)
		}
		c, err := client.New(client.Options{Server: srv.URL(), Key: strings.TrimSpace(string(secret))})
		if err != nil {
			return err
		}
		if err := receivers.Install(ctx, c); err != nil {
			return err
		}
		path, err := codes.Link(strings.TrimSpace(string(secret)))
		if err != nil {
			return err
		}
		s.example(srv)
		s.Note("The dashboard: %s", srv.URL()+path)
		s.Note("(the link signs in one browser on this machine, once, within 15 minutes)\n")
		key := &enter{session: s, receivers: receivers, client: c}
		s.EachLine(ctx, func(string) { key.press(ctx) })
		if with.story {
			told := s.story(receivers, c, key, srv.URL())
			shown.begun.Store(&begun{told, keyPath(srv)})
			story.Go(func() { s.play(ctx, told) })
		}
		return nil
	}
	err = s.runServer(ctx, o, started)
	if with.anyPort && errors.Is(err, syscall.EADDRINUSE) {
		s.Note("%s is in use; taking another port", o.Listen)
		o.Listen = "127.0.0.1:0"
		err = s.runServer(ctx, o, started)
	}
	return taken(ctx, o.Listen, err)
}

// story makes the demo's story, which prints its steps.
func (s *session) story(receivers *demo.Receivers, c *client.Client, key *enter, url string) *demo.Story {
	return demo.NewStory(receivers, c, func(step demo.Step) {
		if step.Done {
			s.Note("✓ %s: %s", step.Title, step.Detail)
			s.Note("  The dashboard: %s", url)
			if step.Name == "replay" {
				key.asked.Store(false)
			}
			return
		}
		key.asked.Store(true)
		s.Note("▸ %s: %s. Press Enter here, or run:", step.Title, step.Detail)
		s.Note("    curl -X POST %s", receivers.FixURL())
		s.Note("    %s dlq replay --endpoint %s --yes", s.Program, receivers.Endpoint(demo.Ledger))
	})
}

// play plays the story to its end.
func (s *session) play(ctx context.Context, story *demo.Story) {
	if err := story.Run(ctx); err != nil && ctx.Err() == nil {
		s.Note("The demo's story ended early: %v", err)
	}
}

// keyPath is the whole path of the file with the key.
func keyPath(srv *server.Server) string {
	if path, err := filepath.Abs(srv.AdminKey().Path); err == nil {
		return path
	}
	return srv.AdminKey().Path
}

// example prints commands to paste.
func (s *session) example(srv *server.Server) {
	keyFile := keyPath(srv)
	server := ""
	if srv.URL() != client.DefaultServer {
		server = "\n  export GRAPNEL_SERVER=" + srv.URL()
	}
	_, _ = fmt.Fprintf(s.Stderr, `
Three demo receivers listen on loopback: one healthy, one flaky, and a ledger with a bug. Their story
is told here, step by step (✓). Their policy is the default, with seconds in place of minutes and hours.
Press Enter to send an event of your own, or, in another terminal:
%s
  export GRAPNEL_KEY_FILE=%s
  %s send invoice.paid -d '{"amount":100}' --key inv_1
  %s deliveries list

or with curl:

  curl %s/v1/events -H "Authorization: Bearer $(cat %s)" \
    -H 'Content-Type: application/json' -d '{"type":"invoice.paid","key":"inv_1","data":{"amount":100}}'

What the receivers get appears here. The API is described at %s/docs; Ctrl-C ends.

`, server, keyFile, s.Program, s.Program, srv.URL(), keyFile, srv.URL())
}
