// Command house prints warnings about prose and width: comments that do not name the thing, wide
// lines, phrases in pages about the code. These cost a reader time and break nothing, so it fails
// only if it cannot read the tree. The rules that have to hold, about structure and about words
// that users see, are its tests. It reads text and syntax, and runs at the root of the module.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	warnings, err := warnings()
	if err != nil {
		fmt.Fprintln(os.Stderr, "house:", err)
		os.Exit(1)
	}
	for _, w := range warnings {
		_, _ = fmt.Fprintln(os.Stdout, "warning:", w)
	}
}

// warnings are the faults of prose and width in the tree.
func warnings() (all []string, err error) {
	files, err := sources()
	if err != nil {
		return nil, err
	}
	for _, s := range files {
		all = append(all, narrow(s)...)
		all = append(all, named(s)...)
	}
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md"} {
		pages, err := filepath.Glob(pattern)
		if err != nil {
			return nil, err
		}
		for _, page := range pages {
			if !forContributors(page) {
				continue
			}
			text, err := os.ReadFile(page)
			if err != nil {
				return nil, err
			}
			all = append(all, plain(page, string(text))...)
			all = append(all, wide(page, string(text))...)
		}
	}
	return all, nil
}
