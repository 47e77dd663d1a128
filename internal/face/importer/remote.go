package importer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/backoff"
	"github.com/grapnelhq/grapnel/internal/base/bounds"
)

// reading is one pass over another system.
type reading struct {
	Remote
	base     *url.URL
	requests int
	objects  int
}

// begin checks the address and limits the pass.
func (r Remote) begin(ctx context.Context) (*reading, context.Context, context.CancelFunc, error) {
	r.Bounds = bounds.Fill(r.Bounds)
	base, err := url.Parse(strings.TrimSuffix(strings.TrimSuffix(r.URL, "/"), "/api/v1"))
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" || base.User != nil || base.RawQuery != "" {
		return nil, nil, nil, grapnel.Errorf(grapnel.CodeInvalid, "the other system's address must look like https://api.example.com")
	}
	var own http.Client
	if r.HTTP != nil {
		own = *r.HTTP
	}
	// A redirect would carry the token to wherever it points.
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	r.HTTP = &own
	ctx, cancel := context.WithTimeout(ctx, r.Bounds.All)
	return &reading{Remote: r, base: base}, ctx, cancel, nil
}

// counted counts one object. It fails if there are more than the bound.
func (r *reading) counted() error {
	if r.objects++; r.objects > r.Bounds.Objects {
		return tooMuch("has more than %d objects", r.Bounds.Objects)
	}
	if r.Tell != nil {
		r.Tell(r.objects)
	}
	return nil
}

func tooMuch(format string, args ...any) error {
	return grapnel.Errorf(grapnel.CodeTooLarge, "the other system %s; --bound sets another limit", fmt.Sprintf(format, args...))
}

// get reads one path. It repeats a request that was not answered, or with 429 or 5xx.
func (r *reading) get(ctx context.Context, path string, q url.Values, out any) error {
	pauses := backoff.Steps{First: r.Bounds.Pause, Longest: r.Bounds.Wait}
	for try := 1; ; try++ {
		if r.requests++; r.requests > r.Bounds.Requests {
			return tooMuch("takes more than %d requests", r.Bounds.Requests)
		}
		after, err := r.once(ctx, path, q, out)
		refused, is := errors.AsType[*Refused](err)
		repeat := is && (refused.Status == http.StatusTooManyRequests || refused.Status >= 500) || errors.Is(err, ErrUnanswered)
		if err == nil || !repeat || try == r.Bounds.Tries {
			return err
		}
		if !backoff.Wait(ctx.Done(), min(max(after, pauses.After(try)), r.Bounds.Wait)) {
			return context.Cause(ctx)
		}
	}
}

// ErrUnanswered is in the errors of a connection that failed.
var ErrUnanswered = errors.New("no answer from the other system")

// once sends a request once. Its errors have nothing of an answer but the status: an answer may
// repeat the token.
func (r *reading) once(ctx context.Context, path string, q url.Values, out any) (after time.Duration, err error) {
	limited, cancel := context.WithTimeout(ctx, r.Bounds.Call)
	defer cancel()
	at := r.base.JoinPath(path)
	at.RawQuery = q.Encode()
	rq, err := http.NewRequestWithContext(limited, http.MethodGet, at.String(), nil)
	if err != nil {
		return 0, grapnel.Errorf(grapnel.CodeInvalid, "the other system's address cannot be used")
	}
	rq.Header.Set("Authorization", "Bearer "+r.Token)
	rq.Header.Set("Accept", "application/json")
	rq.Header.Set("User-Agent", "grapnel-import/"+grapnel.Version)
	answer, err := r.HTTP.Do(rq)
	if err != nil {
		return 0, unanswered(ctx, err)
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(answer.Body, r.Bounds.Answer+1))
	switch {
	case err != nil:
		return 0, unanswered(ctx, err)
	case answer.StatusCode != http.StatusOK:
		seconds, _ := strconv.Atoi(answer.Header.Get("Retry-After"))
		return time.Duration(max(0, min(seconds, 1<<20))) * time.Second, &Refused{Status: answer.StatusCode, Path: path}
	case int64(len(body)) > r.Bounds.Answer:
		return 0, tooMuch("answered more than %d bytes to GET %s", r.Bounds.Answer, path)
	}
	if err := json.Unmarshal(body, out); err != nil {
		return 0, grapnel.Errorf(grapnel.CodeMalformed, "the other system's answer to GET %s is not of the form that its API has", path)
	}
	return 0, nil
}

// unanswered is an error of the connection, without the URL. The caller's own end comes first.
func unanswered(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if wrapped, is := errors.AsType[*url.Error](err); is {
		err = wrapped.Err
	}
	return fmt.Errorf("%w: %w", ErrUnanswered, err)
}

// missing says whether the other system does not have a path.
func missing(err error) bool {
	refused, is := errors.AsType[*Refused](err)
	return is && (refused.Status == http.StatusNotFound || refused.Status == http.StatusMethodNotAllowed)
}
