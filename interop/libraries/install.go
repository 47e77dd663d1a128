package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// files are the pins and the scripts. They are copied to where the packages are found.
//
//go:embed go.mod python/* node/* java/* rust/*
var files embed.FS

// pins are the files with the versions to install.
var pins = []string{"python/requirements.txt", "node/package.json", "node/package-lock.json"}

// install installs the packages of Python and Node into a directory whose name is the hash of the
// pins, unless it exists. They are built beside it and renamed, so an existing directory is
// complete.
func (l *lab) install(ctx context.Context) error {
	var err error
	if l.versions, err = pinned(); err != nil {
		return err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	hash := sha256.New()
	for _, name := range pins {
		text, err := files.ReadFile(name)
		if err != nil {
			return err
		}
		_, _ = hash.Write(text)
	}
	l.cache = filepath.Join(cache, "grapnel-interop")
	whole := filepath.Join(l.cache, fmt.Sprintf("%x", hash.Sum(nil)[:8]))
	if _, err := os.Stat(filepath.Join(whole, "done")); err != nil {
		if err := fill(ctx, whole); err != nil {
			return err
		}
	}
	l.python = filepath.Join(whole, "venv", "bin", "python")
	for _, language := range []string{"python", "node"} {
		if err := copyScripts(language, filepath.Join(l.dir, language)); err != nil {
			return err
		}
	}
	return os.Symlink(filepath.Join(whole, "node", "node_modules"), filepath.Join(l.dir, "node", "node_modules"))
}

// fill installs into a directory. A virtual environment contains its own path, so it is not moved:
// the last file written marks it as complete.
func fill(ctx context.Context, dir string) error {
	fmt.Fprintln(os.Stderr, "installing libraries into", dir)
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o700)); err != nil {
		return err
	}
	for _, language := range []string{"python", "node"} {
		if err := copyScripts(language, filepath.Join(dir, language)); err != nil {
			return err
		}
	}
	venv := filepath.Join(dir, "venv")
	for _, command := range [][]string{
		{"", "python3", "-m", "venv", venv},
		{"", filepath.Join(venv, "bin", "pip"), "install", "--quiet", "--no-deps", "-r", filepath.Join(dir, "python", "requirements.txt")},
		{filepath.Join(dir, "node"), "npm", "ci", "--ignore-scripts", "--silent"},
	} {
		cmd := exec.CommandContext(ctx, command[1], command[2:]...) //nolint:gosec // from the list above
		cmd.Dir = command[0]
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", strings.Join(command[1:], " "), err, out)
		}
	}
	return os.WriteFile(filepath.Join(dir, "done"), nil, 0o600)
}

func copyScripts(language, to string) error {
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	entries, err := files.ReadDir(language)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		text, err := files.ReadFile(language + "/" + entry.Name())
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(to, entry.Name()), text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// pinned reads the versions from the pins.
func pinned() (map[string]string, error) {
	versions := map[string]string{}
	for name, pattern := range map[string]string{
		"python python/requirements.txt": `(?m)^(\S+)==(\S+)$`,
		"node node/package.json":         `(?m)^ {4}"(\S+)": "(\S+)",?$`,
		"java java/pom.xml":              `<groupId>(\S+)</groupId>\s+<artifactId>(\S+)</artifactId>\s+<version>(\S+)</version>`,
		"rust rust/Cargo.toml":           `(?m)^(\S+) = (?:\{ version = )?"=(\S+)"`,
		"go go.mod":                      `(?m)^\t(\S+) (v\S+)$`, // without indirect dependencies
	} {
		language, file, _ := strings.Cut(name, " ")
		text, err := files.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(text), -1) {
			last := len(m) - 1
			versions[language+" "+strings.Join(m[1:last], ":")] = m[last]
		}
	}
	return versions, nil
}

// version is the pinned version of a package. A missing one is a mistake of this program.
func (l *lab) version(language, name string) string {
	v, there := l.versions[language+" "+name]
	if !there && name != "node:crypto" {
		panic("no pin for " + language + " " + name)
	}
	return v
}

// scriptTime is the longest time for a script. A script that waits in vain is ended.
const scriptTime = 2 * time.Minute

// script runs one of the scripts, passes it JSON or text and decodes its output.
func (l *lab) script(ctx context.Context, language, name string, in, out any) error {
	program, ending := l.python, ".py"
	if language == "node" {
		program, ending = "node", ".mjs"
	}
	return ask(ctx, "", []string{program, filepath.Join(l.dir, language, name+ending)}, in, out)
}

// ask runs a program in a directory, passes it JSON or text and decodes its output.
func ask(ctx context.Context, dir string, command []string, in, out any) error {
	text, isText := in.(string)
	if !isText {
		raw, err := json.Marshal(in)
		if err != nil {
			return err
		}
		text = string(raw)
	}
	ctx, cancel := context.WithTimeout(ctx, scriptTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...) //nolint:gosec // our own programs
	cmd.Dir = dir
	cmd.Stdin = strings.NewReader(text)
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(command, " "), err, stderr.Bytes())
	}
	if err := json.Unmarshal(stdout.Bytes(), out); err != nil {
		return fmt.Errorf("%s says %.200q: %w", strings.Join(command, " "), stdout.Bytes(), err)
	}
	return nil
}
