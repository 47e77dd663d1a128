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

// everyPage asks for a list's pages if the running command has --all, until the last one or until
// there are --limit rows. Otherwise some pages, of which each may be short, fill one; 0: one page is
// enough. ask reads the flags --limit and --cursor.
func everyPage(flags *pflag.FlagSet, fills int, ask func() (cli.View, error)) (cli.View, error) {
	all := flags.Lookup("all")
	whole := all != nil && flags.Lookup("cursor") != nil && all.Value.String() == "true"
	if !whole && fills == 0 {
		return ask()
	}
	most := mostRows
	if !whole || flags.Changed("limit") {
		most, _ = flags.GetInt("limit")
	}
	var v cli.View
	for n := 0; n == 0 || v.Next != "" && len(v.Items) < most && (whole || n < fills); n++ {
		if n > 0 {
			_ = flags.Set("cursor", v.Next)
		}
		_ = flags.Set("limit", strconv.Itoa(min(largestPage, most-len(v.Items))))
		page, err := ask()
		if err != nil {
			return v, err
		}
		if n > 0 {
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
