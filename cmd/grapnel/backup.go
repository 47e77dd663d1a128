package main

import (
	"cmp"
	"context"

	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel/internal/face/cli"
	"github.com/grapnelhq/grapnel/internal/server"
)

// lacking is why a backup is not complete.
const lacking = "the journal, the file of data or a part of it was not beside the database, so its last writes or data of events are missing"

func (s *session) backupCommand() *cobra.Command {
	var (
		f  serveFlags
		to string
	)
	c := &cobra.Command{
		Use: "backup --to FILE|-", Short: "Copy the SQLite database to one complete file, also while a server runs",
		Long: "Copy the SQLite database of --store to a new file that is complete by itself. A server may go on meanwhile: " +
			"the copy has everything that it acknowledged before. grapnel restore makes a database of it. With - the " +
			"file goes to standard output, once it is complete. A copy that another tool made of the database alone lacks the " +
			"journal and the file of data, and a server refuses it: give it to --store to make a usable one of what it has. " +
			"The exit code of a copy that is not complete is 9.",
		Args:    takes(cobra.NoArgs),
		Example: "grapnel backup --store sqlite:/var/lib/grapnel/grapnel.db --to /backup/grapnel.db",
	}
	f.offline(c, "store")
	c.Flags().StringVar(&to, "to", "", "the new file; -: standard output")
	c.RunE = s.withPrinter(func(ctx context.Context, p *cli.Printer, _ []string) error {
		ctx, cancel := s.limited(ctx)
		defer cancel()
		if to == "-" {
			return s.streamBackup(ctx, f.Store)
		}
		whole, err := server.Backup(ctx, f.Store, to)
		if err != nil {
			return err
		}
		state := "complete"
		if !whole {
			state = "not complete: " + lacking
		}
		doc := cli.Encode(struct {
			File     string `json:"file"`
			Complete bool   `json:"complete"`
		}{to, whole})
		return cmp.Or(p.Print(object(to, doc, [][]string{{"backup", to}, {"state", state}})), cli.Partial("%s is not complete", to).If(!whole))
	})
	return needs(c, "to")
}

// streamBackup writes a backup to standard output, which has no place for anything else.
func (s *session) streamBackup(ctx context.Context, store string) error {
	if s.Columns(s.Stdout) > 0 {
		return cli.Usagef("--to -: standard output is a terminal; direct it to a file or to grapnel restore -")
	}
	whole, err := server.BackupTo(ctx, store, s.Stdout)
	switch {
	case err == nil && !whole:
		return cli.Partial("nothing was written, as the backup would not be complete: %s", lacking)
	case err != nil && whole:
		return cli.Partial("the backup was not written whole: %v", err)
	}
	return err
}
