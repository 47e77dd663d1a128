package main

import (
	"strconv"

	"github.com/spf13/pflag"

	"github.com/grapnelhq/grapnel/internal/face/cli"
)

const (
	largestPage = 500
	mostRows    = 10_000 // of --all without --limit
)

// everyPage asks for a list's pages until the last one, or until there are --limit rows, if the
// running command has --all. ask reads the flags --limit and --cursor.
func everyPage(flags *pflag.FlagSet, ask func() (cli.View, error)) (cli.View, error) {
	if all := flags.Lookup("all"); all == nil || flags.Lookup("cursor") == nil || all.Value.String() != "true" {
		return ask()
	}
	most := mostRows
	if flags.Changed("limit") {
		most, _ = flags.GetInt("limit")
	}
	var v cli.View
	for first := true; first || v.Next != "" && len(v.Items) < most; first = false {
		if !first {
			_ = flags.Set("cursor", v.Next)
		}
		_ = flags.Set("limit", strconv.Itoa(min(largestPage, most-len(v.Items))))
		page, err := ask()
		if err != nil {
			return v, err
		}
		if !first {
			page.Items, page.Parts[0].Rows = append(v.Items, page.Items...), append(v.Parts[0].Rows, page.Parts[0].Rows...)
		}
		v = page
	}
	doc := map[string]any{"data": documents(v.Items), "next": nil}
	if v.Next != "" {
		doc["next"] = v.Next
	}
	v.JSON = cli.Encode(doc)
	return v, nil
}
