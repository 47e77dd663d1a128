package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/grapnelhq/grapnel/internal/base/seal"
)

// Password is where the password of the database is, if it may change while the store is open. The
// zero value: it is in the URL, or where pgx looks for it.
type Password struct {
	File    string // read for each connection
	Command string // a program with its arguments, started without a shell; it prints the password
}

// passwords reads a password when connections need it.
type passwords struct {
	from   Password
	bounds PasswordBounds

	mu   sync.Mutex // held while a command runs, so that one run serves all who wait
	text string
	read time.Time
}

// give sets the password of a connection that is about to be made.
func (p *passwords) give(ctx context.Context, config *pgx.ConnConfig) (err error) {
	if p.from == (Password{}) {
		return nil
	}
	config.Password, err = p.current(ctx)
	return err
}

// current returns the password, and runs the command if its last answer is too old. The pool calls
// it in a goroutine of its own, so a caller that gives up neither waits for the command nor ends
// it.
func (p *passwords) current(ctx context.Context) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.read.IsZero() && time.Since(p.read) <= p.bounds.Stays {
		return p.text, nil
	}
	text, err := p.ask(ctx)
	if err == nil && p.from.Command != "" {
		p.text, p.read = text, time.Now()
	}
	return text, err
}

// ask reads the password anew. Its errors show nothing that a command printed.
func (p *passwords) ask(ctx context.Context) (string, error) {
	text, err := p.output(ctx)
	if err != nil {
		return "", fmt.Errorf("reading the password of the database failed: %w", err)
	}
	if text = bytes.TrimRight(text, "\r\n"); len(text) == 0 {
		return "", errors.New("reading the password of the database failed: it is empty")
	}
	return string(text), nil
}

func (p *passwords) output(ctx context.Context) ([]byte, error) {
	if p.from.Command == "" {
		file, err := os.Open(p.from.File)
		if err != nil {
			return nil, err
		}
		defer func() { _ = file.Close() }()
		return io.ReadAll(io.LimitReader(file, p.bounds.Most))
	}
	return seal.Printed(ctx, p.from.Command, p.bounds.Within)
}

// refused says whether a connection that was begun at a time failed because of an old password.
// Then the next one gets the present one. A password that has just been read is not tried again.
func (p *passwords) refused(err error, began time.Time) bool {
	var failed *pgconn.ConnectError
	state := stateOf(err)
	if p.from.Command == "" || !errors.As(err, &failed) || len(state) != 5 || state[:2] != stateAuthorization {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if failed.Config.Password != p.text {
		return true // another connection has read the present one meanwhile
	}
	old := p.read.Before(began)
	if old {
		p.read = time.Time{}
	}
	return old
}
