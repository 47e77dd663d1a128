package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel/internal/base/say"
	"github.com/grapnelhq/grapnel/internal/face/cli"
	"github.com/grapnelhq/grapnel/internal/server"
)

// resuming says how held deliveries go on.
const resuming = "To send again: grapnel endpoints resume --held, grapnel queues resume --held"

// offline adds the settings of a server to a command about its database, and shows those named.
func (f *serveFlags) offline(c *cobra.Command, shown ...string) {
	f.add(c.Flags())
	cli.Conceal(c.Flags(), append(shown, "config")...)
}

func (s *session) restoreCommand() *cobra.Command {
	var (
		f    serveFlags
		to   string
		hold bool
	)
	c := &cobra.Command{
		Use: "restore FILE|-", Short: "Make a database from a backup, after verifying it",
		Long: "Make DIR/grapnel.db from a file that grapnel backup has made, for serve --store sqlite:DIR/grapnel.db. The backup is " +
			"verified first: its pages, its schema, and that its pending deliveries fit their events, keys and counts. A directory " +
			"with a database is refused. The command counts the deliveries that were pending in the backup: all of them are sent again, " +
			"also those that have arrived since. With --hold all endpoints and queues are paused, until endpoints resume and queues resume.\n\n" +
			"An interrupted restore leaves no database, and a server does not start beside its file. Repeat the command.",
		Example: "grapnel restore /backup/grapnel.db --to /var/lib/grapnel --hold\n" +
			"ssh db1 grapnel backup --to - | grapnel restore - --to /var/lib/grapnel",
	}
	f.offline(c)
	c.Flags().StringVar(&to, "to", "", "the directory of the new database")
	c.Flags().BoolVar(&hold, "hold", false, "pause all endpoints and queues")
	c.RunE = s.withPrinter(func(ctx context.Context, p *cli.Printer, args []string) error {
		o, err := f.options(s)
		if err != nil {
			return err
		}
		ctx, cancel := s.limited(ctx)
		defer cancel()
		from, size := s.Stdin, int64(-1)
		if args[0] != "-" {
			file, err := os.Open(args[0])
			if err != nil {
				return cli.Usagef("the backup cannot be read: %v", err)
			}
			defer func() { _ = file.Close() }()
			if info, err := file.Stat(); err == nil {
				size = info.Size()
			}
			from = io.Reader(file)
		}
		found, err := server.Restore(ctx, from, size, to, hold, &o)
		if err != nil {
			return err
		}
		if err := p.Print(pendingView(p, &found, args[0])); err != nil {
			return err
		}
		s.Note("A backup has no keys: put admin.key and session.key beside the database before the first start, or all sessions end and " +
			"a new admin key is made. Sessions ended since the backup are valid again: run grapnel rotate sessions.")
		if hold {
			s.Note(resuming)
		}
		return nil
	})
	return needs(c, "to")
}

func (s *session) holdCommand() *cobra.Command {
	var f serveFlags
	c := &cobra.Command{
		Use: "hold", Short: "Pause all endpoints and queues of a database, before its servers start",
		Long: "Pause all endpoints and queues that are enabled in the database of --store, and count its pending deliveries. Run it after a " +
			"database was restored to an earlier time and before its servers start: they would send again deliveries that have arrived since. " +
			"An SQLite database must not be in use. Endpoints that were paused or disabled before stay so when the others are resumed. " +
			"Channels of alerts go on.",
		Example: "grapnel hold --store postgres://grapnel@db/grapnel\ngrapnel endpoints resume ep_…\ngrapnel endpoints resume --held",
	}
	f.offline(c, "store", "store-password-file", "store-password-command")
	c.RunE = s.withPrinter(func(ctx context.Context, p *cli.Printer, _ []string) error {
		o, err := f.options(s)
		if err != nil {
			return err
		}
		ctx, cancel := s.limited(ctx)
		defer cancel()
		found, err := server.Hold(ctx, &o)
		if err != nil {
			return err
		}
		s.Note(resuming)
		return p.Print(pendingView(p, &found, ""))
	})
	return c
}

// pendingCounts are pending deliveries, in JSON.
type pendingCounts struct {
	Pending int64 `json:"pending"`
	Due     int64 `json:"due"`
	Later   int64 `json:"later"`
	Leased  int64 `json:"leased"`
	Waiting int64 `json:"waiting"`
	Blocked int64 `json:"blocked"`
}

type pendingEndpoint struct {
	Endpoint string `json:"endpoint_id"`
	Tenant   string `json:"tenant"`
	Name     string `json:"name"`
	Status   string `json:"status"`
	pendingCounts
	Oldest *time.Time `json:"oldest_at"`
}

// pendingView shows the pending deliveries of a database. Deliveries that were in flight are not
// known: an attempt is recorded when it ends. They are among those that are due.
func pendingView(p *cli.Printer, found *server.Pending, backup string) cli.View {
	doc := struct {
		Backup   string     `json:"backup,omitempty"`
		Database string     `json:"database"`
		Newest   *time.Time `json:"newest_event_at"`
		Held     int        `json:"held"`
		pendingCounts
		Oldest    *time.Time        `json:"oldest_at"`
		Endpoints []pendingEndpoint `json:"endpoints"`
	}{Backup: backup, Database: found.Database, Held: found.Held, Endpoints: []pendingEndpoint{}}
	if !found.Newest.IsZero() {
		doc.Newest = &found.Newest
	}
	var rows [][]string
	for i := range found.Endpoints {
		e := &found.Endpoints[i]
		n := pendingCounts{e.Pending, e.Ready, e.Scheduled(), e.Leased, e.Waiting, e.Blocked}
		one := pendingEndpoint{Endpoint: e.Endpoint, Tenant: e.Tenant, Name: e.Name, Status: string(e.Status), pendingCounts: n}
		if !e.Oldest.IsZero() {
			one.Oldest = &e.Oldest
			if doc.Oldest == nil || e.Oldest.Before(*doc.Oldest) {
				doc.Oldest = &e.Oldest
			}
		}
		sum := &doc.pendingCounts
		*sum = pendingCounts{sum.Pending + n.Pending, sum.Due + n.Due, sum.Later + n.Later, sum.Leased + n.Leased, sum.Waiting + n.Waiting,
			sum.Blocked + n.Blocked}
		doc.Endpoints = append(doc.Endpoints, one)
		rows = append(rows, []string{e.Endpoint, e.Tenant, string(e.Status), number(n.Pending), number(n.Due), number(n.Later), number(n.Leased),
			number(n.Waiting), number(n.Blocked), p.Time(one.Oldest), e.Name})
	}
	form := [][]string{{"backup", backup}, {"database", found.Database}, {"newest event", p.Time(doc.Newest)}}
	form = append(form, pendingForm(p, &doc.pendingCounts, doc.Oldest, len(rows))...)
	if found.Held > 0 {
		form = append(form, []string{"paused", say.Many(found.Held, "endpoint or queue", "endpoints and queues")})
	}
	if len(rows) == 0 {
		return object(found.Database, cli.Encode(doc), form)
	}
	return object(found.Database, cli.Encode(doc), form, cli.Part{Rows: rows,
		Head: []string{"ENDPOINT", "TENANT", "STATUS", "PENDING", "DUE", "LATER", "LEASED", "WAITING", "BLOCKED", "OLDEST", "TO"}})
}

// pendingForm says how many will be sent, and when.
func pendingForm(p *cli.Printer, n *pendingCounts, oldest *time.Time, endpoints int) [][]string {
	if n.Pending == 0 {
		return [][]string{{"pending", "nothing: no delivery is sent again"}}
	}
	form := [][]string{{"pending", fmt.Sprintf("%s of %s; the oldest was accepted %s", say.Many(n.Pending, "delivery", "deliveries"),
		say.Many(endpoints, "endpoint", "endpoints"), p.Time(oldest))}}
	for _, part := range []struct {
		n          int64
		name, what string
	}{
		{n.Due, "due", "sent at once; some may have been in flight or arrive since, and are sent again"},
		{n.Later, "later", "sent at their time; some may have arrived since, and are sent again"},
		{n.Leased, "leased", "were with consumers; leased again when the lease has ended"},
		{n.Waiting, "waiting", "sent after earlier ones of their keys"},
		{n.Blocked, "blocked", "wait for a person"},
	} {
		if part.n > 0 {
			form = append(form, []string{part.name, say.Count(part.n) + ": " + part.what})
		}
	}
	return form
}
