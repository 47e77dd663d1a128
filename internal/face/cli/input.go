package cli

import (
	"bufio"
	"context"
	"errors"
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
		text, err := w.typed(func() ([]byte, error) { return io.ReadAll(w.Stdin) })
		if errors.Is(err, context.Canceled) {
			return nil, err
		}
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

// EachLine calls take for each line that a person types, until ctx ends. Input without a terminal is
// another program's, such as the script that started this one. Like typed, it leaves a read behind,
// which only its input or the end of the process ends.
func (w *World) EachLine(ctx context.Context, take func(line string)) {
	if _, file := w.Stdin.(*os.File); file {
		if _, there := terminal(w.Stdin); !there {
			return
		}
	}
	unstopped()
	go func() {
		for lines := bufio.NewScanner(w.Stdin); lines.Scan() && ctx.Err() == nil; {
			take(strings.TrimSpace(lines.Text()))
		}
	}()
}

// typed runs a read of standard input, which nothing but its input can end. A signal leaves it
// behind: the process ends then.
func (w *World) typed(read func() ([]byte, error)) ([]byte, error) {
	type input struct {
		text []byte
		err  error
	}
	got := make(chan input, 1)
	go func() {
		text, err := read()
		got <- input{text, err}
	}()
	select {
	case in := <-got:
		return in.text, in.err
	case <-w.Interrupted:
		return nil, context.Canceled
	}
}
