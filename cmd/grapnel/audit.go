package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/chain"
	"github.com/grapnelhq/grapnel/internal/face/cli"
)

var audit = resource[client.AuditEntry]{
	path: "/v1/audit", filters: cli.AuditFilters,
	head: []string{"N", "WHEN", "WHO", "WHAT", "ENDPOINT", "DELIVERY", "WHY"},
	row: func(r reader, e *client.AuditEntry) []string {
		return []string{positive(e.Number), r.Time(&e.At), named(e.ActorName, e.Actor), string(e.Verb), named(e.Name,
			e.EndpointID), e.DeliveryID, e.Reason}
	},
}

func (s *session) auditCommand() *cobra.Command {
	c := audit.command(s, verb{"list", "List who did what to endpoints and deliveries, when and why, the newest first",
		"grapnel audit --endpoint ep_…\ngrapnel audit --delivery dlv_… -o json"})
	c.Use = "audit"
	c.AddCommand(s.auditExport(), s.auditVerify())
	return c
}

// auditExport checks what it receives while it writes it, which also gives the head.
func (s *session) auditExport() *cobra.Command {
	var file, afterFile string
	c := &cobra.Command{
		Use: "export", Short: "Export the audit as JSON Lines that are linked by hashes, the oldest first",
		Long: "Export the audit of all tenants as JSON Lines, the oldest first. Each line has the hash of the line before and its own, so " +
			"grapnel audit verify finds a change of the file. With --after-file the export continues the chain of an earlier one, which is " +
			"verified first. The last line on stderr is the head of the chain: note it where the file is not, because a program that can write " +
			"the file can compute all hashes again. Needs a key that is bound to no tenant.",
		Example: "grapnel audit export --file audit-2026-01.jsonl\n" +
			"grapnel audit export --after-file audit-2026-01.jsonl --file audit-2026-02.jsonl",
		RunE: s.withReader(func(ctx context.Context, r reader, _ []string) error {
			last, after := chain.Report{}, &chain.Hash{}
			if afterFile != "" {
				var err error
				if last, err = s.checkFiles(nil, nil, afterFile); err != nil {
					return err
				}
				if !last.Verified || last.Lines == 0 {
					return cli.Findings("--after-file %s: it cannot be continued, because grapnel audit verify would refuse it", afterFile)
				}
				if *after, err = chain.Parse(last.Head); err != nil {
					return err
				}
			}
			check := chain.NewChecker(after, chain.Bounds{})
			err := s.download(ctx, file, "the audit", false, func(ctx context.Context, out io.Writer) error {
				return r.ExportAudit(ctx, last.Last, last.Head, io.MultiWriter(out, check))
			})
			if err != nil {
				return err
			}
			is := check.End(nil)
			if !is.Verified {
				return cli.Findings("what the server sent is no chain: line %d: %s", is.Faults[0].Line, is.Faults[0].Detail)
			}
			s.Note("The head of the chain is %s.", is.Head)
			return nil
		}),
	}
	c.Flags().StringVar(&file, "file", "", "write to this new file instead of standard output")
	c.Flags().StringVar(&afterFile, "after-file", "", "continue the chain of this export")
	return c
}

// auditVerify needs no server.
func (s *session) auditVerify() *cobra.Command {
	var head, after string
	c := &cobra.Command{
		Use: "verify FILE|-…", Short: "Verify the hashes of an exported audit",
		Long: "Verify that the lines of exports are those that were written: none changed, missing, added or moved. Several files are one " +
			"chain, in their order. Whether lines are missing at the end, or all hashes were computed again, shows only with --head, the head " +
			"that was noted when the last file was exported. Exits with 8 and names the lines if something is wrong.",
		Example: "grapnel audit verify audit-2026-01.jsonl audit-2026-02.jsonl --head @head.txt",
		RunE: s.withPrinter(func(_ context.Context, p *cli.Printer, files []string) error {
			var heads [2]*chain.Hash
			for i, f := range []struct{ flag, text string }{{"--after", after}, {"--head", head}} {
				text, err := s.Text(f.flag, f.text)
				if err != nil {
					return err
				}
				if text = strings.TrimSpace(text); text == "" {
					continue
				}
				h, err := chain.Parse(text)
				if err != nil {
					return cli.Usagef("%s %v", f.flag, err)
				}
				heads[i] = &h
			}
			if heads[0] == nil {
				heads[0] = &chain.Hash{}
			}
			is, err := s.checkFiles(heads[0], heads[1], files...)
			if err != nil {
				return err
			}
			if err := p.Print(chainView(&is)); err != nil || is.Verified {
				if err == nil && heads[1] == nil {
					s.Note("Without --head, lines that are missing at the end are not noticed.")
				}
				return err
			}
			first := is.Faults[0]
			return cli.Findings("the audit does not verify: %s line %d: %s", first.File, first.Line, first.Detail)
		}),
	}
	c.Flags().StringVar(&head, "head", "", "hash that the last line must have")
	cli.Form(c.Flags(), "HASH|@FILE", "head")
	c.Flags().StringVar(&after, "after", "", "hash of the line before the first one; not given: the chain begins with it")
	cli.Form(c.Flags(), "HASH|@FILE", "after")
	return c
}

func (s *session) checkFiles(after, head *chain.Hash, files ...string) (chain.Report, error) {
	c := chain.NewChecker(after, chain.Bounds{})
	for _, name := range files {
		c.File(name)
		if err := s.copyFile(c, name); err != nil {
			return chain.Report{}, err
		}
	}
	return c.End(head), nil
}

func (s *session) copyFile(to io.Writer, name string) (err error) {
	if name == "-" {
		text, err := s.Content("the export", name)
		if err == nil {
			_, err = to.Write(text)
		}
		return err
	}
	f, err := os.Open(name)
	if err != nil {
		return cli.Usagef("%v", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	_, err = io.Copy(to, f)
	return err
}

func chainView(is *chain.Report) cli.View {
	v := cli.View{JSON: cli.Encode(is)}
	v.Items = []cli.Item{{Name: is.Head, JSON: v.JSON}}
	entries := "none"
	if is.Lines > 0 {
		entries = fmt.Sprintf("%d to %d", is.First, is.Last)
	}
	v.Parts = []cli.Part{{Rows: [][]string{
		{"verified", yesNo(is.Verified)}, {"lines", strconv.Itoa(is.Lines)}, {"entries", entries}, {"head", is.Head},
	}}}
	if is.Count > 0 {
		part := cli.Part{Title: fmt.Sprintf("%d of %d faults", len(is.Faults), is.Count), Head: []string{"FILE", "LINE", "FAULT", "DETAIL"}}
		for _, f := range is.Faults {
			part.Rows = append(part.Rows, []string{f.File, positive(f.Line), string(f.Kind), f.Detail})
		}
		v.Parts = append(v.Parts, part)
	}
	return v
}
