package cli

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/charmbracelet/x/term"
)

// Contexts are servers with the keys for them, by name. Their file is for their user alone.
type Contexts struct {
	Current string             `json:"current"`
	All     map[string]Context `json:"contexts"`
	path    string
}

// Context is a server with the key for it.
type Context struct {
	Server string `json:"server"`
	Key    string `json:"key"`
}

// Contexts reads the file of contexts. Without one there are none.
func (w *World) Contexts() (*Contexts, error) {
	xdg, _ := w.Lookup("XDG_CONFIG_HOME")
	roaming, _ := w.Lookup("APPDATA")
	c := &Contexts{All: map[string]Context{}}
	if home, _ := w.Lookup("HOME"); home+xdg+roaming != "" {
		c.path = filepath.Join(cmp.Or(xdg, roaming, filepath.Join(home, ".config")), "grapnel", "contexts.json")
	}
	text, err := os.ReadFile(c.path)
	if c.path == "" || errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	info, _ := os.Stat(c.path)
	if info != nil && runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return nil, &Fault{ExitUsage, "usage", c.path + " has API keys, and other users may open it", "Run: chmod 600 " + c.path}
	}
	if err = cmp.Or(err, json.Unmarshal(text, c)); err != nil {
		return nil, Usagef("cannot read the contexts in %s: %v", c.path, err)
	}
	return c, nil
}

// Save replaces the file as a whole: another command may read it.
func (c *Contexts) Save() error {
	if c.path == "" {
		return Usagef("there is no place for contexts: HOME is not set")
	}
	err := os.MkdirAll(filepath.Dir(c.path), 0o700)
	if err == nil {
		var file *os.File
		if file, err = os.CreateTemp(filepath.Dir(c.path), "contexts-*"); err == nil { // mode 0600
			_, err = file.Write(append(Encode(c), '\n'))
			if err = cmp.Or(err, file.Close()); err == nil {
				err = os.Rename(file.Name(), c.path)
			}
		}
	}
	if err != nil {
		return fmt.Errorf("storing the context: %w", err)
	}
	return nil
}

// Secret reads a line: from a terminal without showing it, else from standard input.
func (w *World) Secret(prompt string) (string, error) {
	read := func() ([]byte, error) { return bufio.NewReader(w.Stdin).ReadBytes('\n') }
	if in, there := terminal(w.Stdin); there {
		_, _ = fmt.Fprint(w.Stderr, Clean(prompt)+" ")
		if state, err := term.GetState(in.Fd()); err == nil {
			defer func() { _ = term.Restore(in.Fd(), state) }() // a signal leaves the read behind
		}
		read = func() ([]byte, error) { return term.ReadPassword(in.Fd()) }
	}
	line, err := w.typed(read)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return strings.TrimSpace(string(line)), err
}
