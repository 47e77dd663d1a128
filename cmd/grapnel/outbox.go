package main

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/face/cli"
	"github.com/grapnelhq/grapnel/internal/inbound/relay"
	"github.com/grapnelhq/grapnel/outbox"
)

func (s *session) outboxCommand() *cobra.Command {
	c := group("outbox", "Install the outbox with which producers publish inside their own transactions",
		outboxInstall(s), outboxStatus(s), outboxUninstall(s))
	c.Long = "Install the outbox with which producers publish inside their own transactions. These commands talk to " +
		"the producer's database, PostgreSQL, MySQL or MariaDB, and not to a server; grapnel sources create NAME --outbox DSN " +
		"makes a server read from it."
	return c
}

// outboxDSN adds the flag of the producer's database.
func outboxDSN(c *cobra.Command, dsn *string) {
	c.Flags().StringVar(dsn, "dsn", "", "the producer's database, postgres:// or mysql://user:password@host/database; or GRAPNEL_OUTBOX_DSN")
	cli.Form(c.Flags(), "DSN|@FILE|-", "dsn")
}

// producerDSN is the DSN that the flag or the environment gives.
func producerDSN(w *cli.World, given string) (string, error) {
	if given != "" {
		return w.Text("--dsn", given)
	}
	text, err := w.SecretVariable("GRAPNEL_OUTBOX_DSN")
	if err == nil && text == "" {
		err = cli.Usagef("no database: give --dsn, or set GRAPNEL_OUTBOX_DSN")
	}
	return text, err
}

func outboxInstall(s *session) *cobra.Command {
	var dsn string
	var rights relay.Rights
	var show, mysql bool
	c := &cobra.Command{
		Use: "install", Short: "Create the outbox in a producer's database, or upgrade an older one",
		Long: "Create the outbox in a producer's database, or upgrade an older one: the schema grapnel with three tables, " +
			"three sequences, and the function grapnel.grapnel_publish. It is one transaction and can be repeated. In MySQL " +
			"and MariaDB it is three tables and the procedure grapnel_publish. With --print nothing is done: the SQL is " +
			"printed, for a migration of your own.",
		Example: "grapnel outbox install --dsn postgres://owner@db/orders --publisher orders_app --relay grapnel\n" +
			"grapnel outbox install --dsn mysql://owner@db/orders --publisher orders_app@10.0.0.% --relay grapnel\n" +
			"grapnel outbox install --print > migrations/0042_outbox.sql",
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case show && mysql:
				_, err := fmt.Fprint(s.Stdout, relay.ScriptMySQL(rights))
				return err
			case show:
				_, err := fmt.Fprint(s.Stdout, relay.Script(rights))
				return err
			case mysql:
				return cli.Usagef("--mysql says what --print prints; the DSN says it otherwise")
			}
			at, err := producerDSN(s.World, dsn)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), s.timeout)
			defer cancel()
			before, err := relay.Install(ctx, at, rights)
			if err != nil {
				return err
			}
			s.Note("%s: %s", before.Place, installedText(relay.KindOf(at), before, rights))
			after, err := relay.Inspect(ctx, at)
			if err != nil {
				return err
			}
			return installation(s, after)
		},
	}
	outboxDSN(c, &dsn)
	c.Flags().StringArrayVar(&rights.Publishers, "publisher", nil, "role, or USER@HOST of MySQL, that may publish; may be repeated")
	c.Flags().StringArrayVar(&rights.Relays, "relay", nil,
		"role, or USER@HOST of MySQL, that the server connects as: it may read and remove; may be repeated")
	c.Flags().BoolVar(&show, "print", false, "print the SQL and do nothing")
	c.Flags().BoolVar(&mysql, "mysql", false, "with --print: the SQL of MySQL and MariaDB, instead of PostgreSQL's")
	return c
}

// installedText is the result of an installation in words.
func installedText(in relay.Database, before relay.Installation, r relay.Rights) string {
	text := fmt.Sprintf("created the schema grapnel with an outbox, version %d", outbox.Version)
	switch {
	case in == relay.MySQL && before.Version == 0:
		text = fmt.Sprintf("created an outbox, version %d", outbox.Version)
	case in == relay.MySQL:
		text = fmt.Sprintf("the outbox was installed already, version %d", before.Version)
	case before.Version == outbox.Version:
		text = fmt.Sprintf("the outbox was installed already, version %d; its functions were replaced", before.Version)
	case before.Version > 0:
		text = fmt.Sprintf("upgraded the outbox from version %d to %d", before.Version, outbox.Version)
	}
	if len(r.Publishers) > 0 {
		text += "; may publish: " + strings.Join(r.Publishers, ", ")
	}
	if len(r.Relays) > 0 {
		text += "; may relay: " + strings.Join(r.Relays, ", ")
	}
	return text
}

func outboxStatus(s *session) *cobra.Command {
	var dsn string
	c := &cobra.Command{
		Use: "status", Short: "Show the state of a producer's outbox", Example: "grapnel outbox status --dsn @orders.dsn",
		RunE: func(cmd *cobra.Command, _ []string) error {
			at, err := producerDSN(s.World, dsn)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), s.timeout)
			defer cancel()
			found, err := relay.Inspect(ctx, at)
			if err != nil {
				return err
			}
			if found.Version == 0 {
				return notInstalled(found)
			}
			return installation(s, found)
		},
	}
	outboxDSN(c, &dsn)
	return c
}

func notInstalled(found relay.Installation) error {
	return grapnel.Errorf(grapnel.CodeNotFound, "%s has no outbox; grapnel outbox install creates one", found.Place)
}

// installation prints the state of an outbox.
func installation(s *session, i relay.Installation) error {
	p, err := s.NewPrinter(s.output, s.jq)
	if err != nil {
		return err
	}
	relayed := "polled"
	if i.Asleep {
		relayed = "asleep, and will be woken"
	}
	doc := cli.Encode(struct {
		Place       string    `json:"place"`
		Version     int       `json:"version"`
		InstalledAt time.Time `json:"installed_at"`
		Waiting     int64     `json:"waiting"`
		Oldest      string    `json:"oldest"`
		Asleep      bool      `json:"relay_asleep"`
	}{i.Place, i.Version, i.InstalledAt.UTC(), i.Waiting, i.Oldest.String(), i.Asleep})
	oldest := ""
	if i.Waiting > 0 {
		oldest = i.Oldest.Round(time.Millisecond).String()
	}
	return p.Print(object(i.Place, doc, [][]string{
		{"database", i.Place}, {"version", strconv.Itoa(i.Version)}, {"installed", p.Time(&i.InstalledAt)},
		{"waiting", cmp.Or(positive(i.Waiting), "none")}, {"oldest", oldest}, {"relay", relayed},
	}))
}

func outboxUninstall(s *session) *cobra.Command {
	var dsn string
	c := &cobra.Command{
		Use: "uninstall", Short: "Remove the outbox from a producer's database, with its pending events",
		Example: "grapnel outbox uninstall --dsn @orders.dsn",
		RunE: func(cmd *cobra.Command, _ []string) error {
			at, err := producerDSN(s.World, dsn)
			if err != nil {
				return err
			}
			before, err := relay.Inspect(cmd.Context(), at)
			if err != nil {
				return err
			}
			if before.Version == 0 {
				return notInstalled(before)
			}
			err = s.Confirm("Remove the outbox from %s, and with it %d events that were not relayed?", before.Place, before.Waiting)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), s.timeout)
			defer cancel()
			if before, err = relay.Uninstall(ctx, at, before.Waiting); err != nil {
				return err
			}
			s.Note("%s: removed the outbox, with %d events that were not relayed", before.Place, before.Waiting)
			return nil
		},
	}
	outboxDSN(c, &dsn)
	s.confirmed(c)
	return c
}
