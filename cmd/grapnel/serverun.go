package main

import (
	"log/slog"
	"slices"

	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel/internal/face/cli"
	"github.com/grapnelhq/grapnel/internal/server"
)

func (s *session) serveCommand() *cobra.Command {
	var f serveFlags
	c := &cobra.Command{
		Use: "serve", Short: "Run the server",
		Long: "Run the server until SIGTERM or Ctrl-C, which drain it. SIGHUP makes it read its settings again: those that a running " +
			"server can change (grapnel config show names them) take effect, and the log names the others.\n\n" +
			"Every flag can also be given as a GRAPNEL_* variable (--drain-timeout is GRAPNEL_DRAIN_TIMEOUT) or in the config file " +
			"(drain_timeout: 30s). The first start creates an admin key and writes it to admin.key beside the database; " +
			"GRAPNEL_ADMIN_KEY sets it instead.",
		Example: "grapnel serve --store sqlite:/var/lib/grapnel/grapnel.db --listen 0.0.0.0:8420\n" +
			"grapnel serve --egress-allow 127.0.0.0/8",
		RunE: func(cmd *cobra.Command, _ []string) error {
			o, err := f.options(s)
			if err != nil {
				return err
			}
			o.Settings, o.Log = cli.Shown(cmd), s.Logger(f.logFormat, &f.least)
			for _, wrong := range s.unknownVariables(cmd.Root()) {
				o.Log.Warn("unknown variable ignored", "variable", wrong.Where, "detail", wrong.Detail)
			}
			return taken(cmd.Context(), o.Listen, s.runServer(cmd.Context(), o, s.reloading(&f, cmd, o.Log)))
		},
	}
	f.add(c.Flags())
	return c
}

// reloading returns what happens when a server of some flags has started: its address is announced,
// and from then on SIGHUP makes it read its settings again. A terminal that closes sends SIGHUP
// too: then the server drains, because no person could end it any more.
func (s *session) reloading(f *serveFlags, cmd *cobra.Command, log *slog.Logger) func(*server.Server) error {
	return func(srv *server.Server) error {
		was, seen := s.Settings(cmd.Flags(), nil), s.AtTerminal()
		s.OnHangup(func() bool {
			if seen && !s.AtTerminal() {
				return false
			}
			was = s.reload(f, was, srv, log)
			return true
		})
		return s.announce(srv)
	}
}

// reload reads the settings again, hands those that can change to the server, and names the others
// in the log. After a fault all settings stay as they are. It returns the settings in effect.
func (s *session) reload(f *serveFlags, was []cli.Given, srv *server.Server, log *slog.Logger) []cli.Given {
	var again serveFlags
	cmd := &cobra.Command{Use: "serve"}
	flags := cmd.Flags()
	again.add(flags)
	flags.ParseErrorsAllowlist.UnknownFlags = true // those of every command
	err := flags.Parse(s.Args)
	if err == nil {
		err = s.Settle(flags)
	}
	var o server.Options
	if err == nil {
		o, err = again.options(s)
	}
	if err != nil {
		log.Error("settings not read again; all stay as they are", "err", err)
		return was
	}
	if again.config == "" { // flags and variables of a process never change
		log.Warn("no config file; most settings cannot change while the server runs", "remedy", "--config FILE")
	}
	is := s.Settings(flags, nil)
	var changed, later []string
	for _, name := range cli.Differing(was, is) {
		if slices.Contains(reloaded, name) {
			changed = append(changed, name)
		} else {
			later = append(later, name)
		}
	}
	if len(later) > 0 {
		log.Warn("settings changed that need a restart; the old values stay", "settings", later)
	}
	for i := range is { // the page of settings shows the values in effect
		if slices.Contains(later, is[i].Name) {
			is[i] = was[i]
		}
	}
	o.Settings = cli.Shown(cmd)
	for i := range o.Settings {
		if at := slices.IndexFunc(is, func(g cli.Given) bool { return g.Name == o.Settings[i].Name }); at >= 0 {
			o.Settings[i].Value = is[at].Value
		}
	}
	f.least.Set(again.least.Level())
	srv.Change(o)
	log.Info("settings read again", "changed", changed)
	return is
}
