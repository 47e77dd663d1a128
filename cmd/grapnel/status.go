package main

import (
	"context"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel/internal/tell/statuspage"
)

func (s *session) statusCommand() *cobra.Command {
	var to string
	export := &cobra.Command{
		Use: "export", Short: "Copy the public status page to a directory",
		Long: "Copy the public status page as it is served now: " + statuspage.HTMLFile + ", " + statuspage.JSONFile + ", " + statuspage.RSSFile +
			" and " + statuspage.SVGFile + ". Run it every minute on another machine and serve the directory there: a status page on the machine that " +
			"fails is worth little. It needs no key. If the server does not answer, it fails and leaves the last copy.",
		Example: "grapnel status export --server https://hooks.example.com --to /var/www/status",
		RunE: s.withReader(func(ctx context.Context, r reader, _ []string) (err error) {
			var f statuspage.Files
			for name, file := range map[string]*[]byte{"status": &f.HTML, "status.json": &f.JSON, "status.rss": &f.RSS, "status.svg": &f.SVG} {
				if *file, err = r.StatusFile(ctx, name); err != nil {
					return err
				}
			}
			if err := f.Write(to); err != nil {
				return err
			}
			path, err := filepath.Abs(to)
			if err == nil {
				s.Note("The status page was written to %s.", filepath.Join(path, statuspage.HTMLFile))
			}
			return err
		}),
	}
	export.Flags().StringVar(&to, "to", "", "directory to write to")
	c := group("status", "Copy the public status page", needs(export, "to"))
	c.Long = "Copy the public status page. Whether a server accepts events says grapnel health, how it is doing grapnel top."
	return c
}
