// Command licences checks the licences of all modules that the programs of a release are built from,
// and writes them down for its users.
//
// It reads the files of each module in the module cache, for every platform of a release, and fails
// if one of them is missing, is not recognised, or is not in the table of allowed licences. A new
// licence in the table needs a person who has read it.
package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/licensecheck"
)

// allowed are the licences under which a program under the Apache License 2.0 may be given to
// others, with their texts beside it. MPL-2.0 covers the files of its module alone, and asks that
// users learn where their source is: unchanged, at the module's name and version.
var allowed = []string{"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "MPL-2.0", "Unlicense", "blessing"}

// read are files that a person has read, because the rules below do not fit them: by SHA-256, so
// that another text is read again.
var read = map[string]string{
	// code is under Apache-2.0 or MIT, as it says; CC-BY-4.0 is for its documentation, which is in no program
	"github.com/modelcontextprotocol/go-sdk LICENSE": "af679003d933f045393a6a029f43da113f9ae364eac651d9ae268392985580f5",
	// what musl libc and others have given: MIT, BSD, and the public domain in other words
	"modernc.org/libc LICENSE-3RD-PARTY.md": "f597097efe3d97021f89170746bd3a0fb9a8b6fb26b82043ed68a4e0283bee6c",
	// a list: its MPL-2.0 is that of a module that is compiled into nothing, as it says
	"modernc.org/sqlite LICENSE-3RD-PARTY.md": "b4366b9c27a9364633e015011a231913ed19bf1228f335bf617e50a6f7b168a6",
	// the public domain, in SQLite's own words
	"modernc.org/sqlite LICENSE-SQLITE": "8438c9c89b849131ead81d5435cb97fcf052df5b0b286dda8a2d4c29e6cb3fd0",
	// of a picture, which is in no program
	"modernc.org/memory LICENSE-LOGO": "5ae5bee3072a841376451b48d8cfcec7188e10543926d5870828d36c8a750dc5",
}

// platforms are those of .goreleaser.yaml; the processors make no difference to modules.
var platforms = []string{"linux", "darwin", "windows"}

// covered is the part of a file, in percent, that has to be text of known licences. The rest is
// names of authors and comments.
const covered = 75

var (
	licences = regexp.MustCompile(`(?i)^(licen[cs]e|copying|unlicense)`)
	notices  = regexp.MustCompile(`(?i)^(notice|patents|authors)`)
)

func main() {
	root := flag.String("root", "../..", "directory of the program's module")
	to := flag.String("to", "", "file to write the licences' texts to; empty: check only")
	flag.Parse()
	if err := run(*root, *to); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(root, to string) error {
	modules, err := modulesOf(root)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	fmt.Fprintln(&out, "Grapnel is under the Apache License 2.0 (LICENSE). The program has parts of the following, each under its own licence.")
	fmt.Fprintln(&out, "The source of each is that of the Go module with its name and version, unchanged.")
	var faults []error
	counts := map[string]int{}
	for _, name := range slices.Sorted(maps.Keys(modules)) {
		ids, err := write(&out, name, modules[name])
		faults = append(faults, err)
		counts[strings.Join(ids, " and ")]++
	}
	if err := errors.Join(faults...); err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(os.Stderr, "licences: %3d %s\n", counts[id], id)
	}
	if to == "" {
		return nil
	}
	return os.WriteFile(to, out.Bytes(), 0o644)
}

// modulesOf returns the directories of modules by name and version; the standard library is one.
func modulesOf(root string) (map[string]string, error) {
	ask := func(env []string, args ...string) (string, error) {
		c := exec.Command("go", args...)
		c.Dir, c.Env = root, append(os.Environ(), env...)
		out, err := c.Output()
		var failed *exec.ExitError
		if errors.As(err, &failed) {
			err = fmt.Errorf("go %s: %w\n%s", args[0], err, failed.Stderr)
		}
		return strings.TrimSpace(string(out)), err
	}
	goroot, err := ask(nil, "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	modules := map[string]string{"Go's standard library": goroot}
	for _, system := range platforms {
		text, err := ask([]string{"GOOS=" + system, "GOARCH=amd64", "CGO_ENABLED=0"}, "list", "-tags", "full", "-deps", "-f",
			"{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}\t{{.Dir}}{{end}}{{end}}", "./cmd/grapnel")
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(text) {
			if name, dir, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok {
				modules[name] = dir
			}
		}
	}
	return modules, nil
}

// write appends the texts of a module, and returns its licences.
func write(out *bytes.Buffer, name, dir string) (ids []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	fmt.Fprintf(out, "\n%s\n%s\n", strings.Repeat("=", 100), name)
	var faults []error
	for _, entry := range entries {
		file := entry.Name()
		is := licences.MatchString(file)
		if entry.IsDir() || !is && !notices.MatchString(file) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(out, "\n--- %s\n\n%s\n", file, bytes.TrimSpace(text))
		path, _, _ := strings.Cut(name, " ")
		if !is {
			continue
		}
		found, wasRead := licensecheck.Scan(text), read[path+" "+file] == fmt.Sprintf("%x", sha256.Sum256(text))
		if found.Percent < covered && !wasRead {
			faults = append(faults, fmt.Errorf("%s: %s: %.0f%% of it is text of known licences; read it", name, file, found.Percent))
		}
		for _, m := range found.Match {
			if slices.Contains(allowed, m.ID) {
				ids = append(ids, m.ID)
			} else if !wasRead {
				faults = append(faults, fmt.Errorf("%s: %s: %s is not in the table of allowed licences", name, file, m.ID))
			}
		}
	}
	if len(ids) == 0 {
		faults = append(faults, fmt.Errorf("%s: no licence found in %s", name, dir))
	}
	slices.Sort(ids)
	return slices.Compact(ids), errors.Join(faults...)
}
