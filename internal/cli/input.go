package cli

import (
	"io"
	"os"
	"strings"
)

// Content is what a value given to flag or argument name stands for: @FILE is that file, - is
// standard input, and anything else is itself.
func (w *World) Content(name, value string) ([]byte, error) {
	path, isFile := strings.CutPrefix(value, "@")
	switch {
	case value == "-":
		text, err := io.ReadAll(w.Stdin)
		if err != nil {
			return nil, Usagef("%s: cannot read standard input: %v", name, err)
		}
		return text, nil
	case isFile:
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, Usagef("%s: %v", name, err)
		}
		return text, nil
	}
	return []byte(value), nil
}

// Text is Content without the white space around it.
func (w *World) Text(name, value string) (string, error) {
	content, err := w.Content(name, value)
	return strings.TrimSpace(string(content)), err
}
