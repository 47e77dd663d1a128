package seal

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"filippo.io/age"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/bounds"
)

// Source is where master keys are: one in each line. The first one wraps data keys, and all unwrap
// them. So a new key becomes the first line, and the old one stays below it until a rotation is
// done. The zero value is no source.
type Source struct {
	kind, of string
	bounds   Bounds
}

// Bounds are the time limits of this package; see package bounds.
type Bounds struct {
	ReadWithin time.Duration `bound:"30s"` // for a command that prints the keys: it may hang
}

// Within is the source with other limits than the usual ones.
func (s Source) Within(b Bounds) Source {
	s.bounds = b
	return s
}

// MinLength is how many characters a master key has at least.
const MinLength = 32

// ParseSource reads file:PATH, env:NAME, credential:NAME, age:PATH or command:PROGRAM ARGUMENTS.
// The program is started without a shell. Errors do not repeat the text: it may be the key, by
// mistake.
func ParseSource(text string) (Source, error) {
	if text == "" {
		return Source{}, nil
	}
	kind, of, _ := strings.Cut(text, ":")
	of = strings.TrimSpace(of)
	switch kind {
	case "file", "env", "credential", "age", "command":
		if of != "" {
			return Source{kind: kind, of: of}, nil
		}
	}
	return Source{}, grapnel.Errorf(grapnel.CodeInvalid,
		"--master-key takes file:PATH, env:NAME, credential:NAME, age:PATH or command:PROGRAM, where the master key is, and not the key itself")
}

// read reads the keys as they are now. Its errors show neither keys nor what a command prints.
func (s Source) read(ctx context.Context) (masters, error) {
	fail := func(format string, args ...any) (masters, error) {
		return nil, grapnel.Errorf(grapnel.CodeInvalid, "--master-key "+s.kind+": "+format, args...)
	}
	text, err := s.text(ctx)
	if err != nil {
		return fail("reading it failed: %v", err)
	}
	var all masters
	if s.kind == "age" {
		identities, err := age.ParseIdentities(bytes.NewReader(text))
		if err != nil {
			return fail("there is no age identity that can be read")
		}
		for _, is := range identities {
			m, err := ofAge(is)
			if err != nil {
				return nil, err
			}
			all = append(all, m)
		}
		return all, nil
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if len(line) < MinLength {
			return fail("a line has fewer than %d characters; openssl rand -base64 32 prints a master key", MinLength)
		}
		m, err := ofText(line)
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	if len(all) == 0 {
		return fail("there is no key; openssl rand -base64 32 prints one")
	}
	return all, nil
}

func (s Source) text(ctx context.Context) ([]byte, error) {
	switch s.kind {
	case "env":
		return []byte(os.Getenv(s.of)), nil
	case "credential":
		dir := os.Getenv("CREDENTIALS_DIRECTORY")
		if dir == "" {
			return nil, errors.New("systemd has given this process no credentials")
		}
		return os.ReadFile(filepath.Join(dir, s.of))
	case "command":
		return Printed(ctx, s.of, bounds.Fill(s.bounds).ReadWithin)
	}
	return os.ReadFile(s.of)
}

// Printed is what an operator's program prints, which is a secret: a master key or a password. The
// program, with its arguments, is started without a shell, and is killed after the limit. A child
// that it leaves behind with its output open is not waited for. Errors show nothing that the
// program printed.
func Printed(ctx context.Context, program string, limit time.Duration) ([]byte, error) {
	words := strings.Fields(program)
	if len(words) == 0 {
		return nil, errors.New("the command is empty")
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, words[0], words[1:]...) //nolint:gosec // the operator names the program
	cmd.Stderr, cmd.WaitDelay = io.Discard, time.Second
	text, err := cmd.Output()
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil // the program succeeded; a child has its output
	}
	return text, err
}
