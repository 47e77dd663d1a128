package main

import (
	"context"
	"net/url"
	"os/exec"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel/internal/face/cli"
)

// pageOf is the path of an object's page on the dashboard; empty: it has none.
func pageOf(id string) string {
	t, _ := thingWithID(id)
	path := strings.TrimPrefix(t.path, "/v1")
	switch t.word {
	case "CHANNEL":
		return path + "/" + url.PathEscape(id) + "/edit"
	case "KEY":
		return path
	case "", "CONTACT", "ERASURE_ID", "INCIDENT_ID", "LEASE":
		return ""
	}
	return path + "/" + url.PathEscape(id)
}

// openers open a URL, by system.
var openers = map[string]string{"darwin": "open", "linux": "xdg-open", "windows": "explorer"}

// openCommand prints the URL of a page before it opens it: the browser may be on another machine.
func (s *session) openCommand() *cobra.Command {
	var only bool
	c := &cobra.Command{
		Use: "open [ID]", Short: "Open the page of anything on the dashboard, by its id or name",
		Long: "Print the URL of an object's page on the dashboard, and open it in a browser if there is one here. Names are those of " +
			"endpoints, sources, queues, policies and event types. Without ID it is the overview.",
		Example: "grapnel open\ngrapnel open Warehouse\ngrapnel open dlv_… --print",
		RunE: s.withReader(func(ctx context.Context, r reader, args []string) error {
			path := "/"
			for _, text := range args {
				id, err := s.idOf(s.command, text, "ENDPOINT", "SOURCE", "QUEUE", "POLICY", "TYPE")
				if err != nil {
					return err
				}
				if path = pageOf(id); path == "" {
					return cli.Usagef("%s has no page of its own", id)
				}
			}
			at := strings.TrimSuffix(r.Server(), "/") + path
			if err := r.Print(single(at, cli.Encode(map[string]string{"url": at}), cli.Part{Text: at})); err != nil || only || !s.AtTerminal() {
				return err
			}
			_, remote := s.Lookup("SSH_CONNECTION")
			_, x := s.Lookup("DISPLAY")
			if _, wayland := s.Lookup("WAYLAND_DISPLAY"); !remote && (x || wayland || runtime.GOOS != "linux") {
				if err := exec.CommandContext(ctx, openers[runtime.GOOS], at).Run(); err != nil {
					s.Note("no browser was opened: %v", err)
				}
			}
			return nil
		}),
	}
	c.Flags().BoolVar(&only, "print", false, "print the URL, open nothing")
	return c
}
