package receive

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// conforming runs the cases of a file that all kits have in common.
func conforming[G, W any](t *testing.T, file string, least int, test func(t *testing.T, given G, want W)) {
	raw, err := os.ReadFile("../sdk/conformance/" + file)
	if err != nil {
		t.Fatal(err)
	}
	var all struct {
		Cases []struct {
			Name  string
			Given G
			Want  W
		}
	}
	if err := json.Unmarshal(raw, &all); err != nil || len(all.Cases) < least {
		t.Fatalf("%s: %d cases, %v", file, len(all.Cases), err)
	}
	for _, c := range all.Cases {
		t.Run(c.Name, func(t *testing.T) { test(t, c.Given, c.Want) })
	}
}

// TestEveryFileOfTheKitsIsRun: some test of this kit reads each file that all kits have in common.
// A new file fails it until one does.
func TestEveryFileOfTheKitsIsRun(t *testing.T) {
	reads := regexp.MustCompile(`(?:each|conforming|ReadFile|Glob)\((?:t, )?"([^"]+)"`)
	var read []string
	walk := func(root, suffix string, visit func(path string)) {
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && !entry.IsDir() && strings.HasSuffix(path, suffix) {
				visit(path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	walk(".", "_test.go", func(path string) {
		source, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, call := range reads.FindAllSubmatch(source, -1) {
			read = append(read, filepath.Base(string(call[1])))
		}
	})
	walk("../sdk/conformance", "", func(path string) {
		name := filepath.Base(path)
		run := slices.ContainsFunc(read, func(pattern string) bool { ok, _ := filepath.Match(pattern, name); return ok })
		if !run && name != "README.md" {
			t.Errorf("%s: no test of this kit runs it", path)
		}
	})
}

func TestIdempotencyKeysOfTheKits(t *testing.T) {
	type given struct{ Source, Event, Step string }
	type want struct{ Key string }
	conforming(t, "idempotency.json", 10, func(t *testing.T, g given, w want) {
		d := Delivery{Source: g.Source, ID: g.Event}
		if got := d.IdempotencyKey(g.Step); got != w.Key {
			t.Errorf("%s, want %s", got, w.Key)
		}
	})
}

// TestAnswersOfTheKits: the kit's own sentence stands for the reason of a case.
func TestAnswersOfTheKits(t *testing.T) {
	type given struct {
		Outcome    Outcome
		RetryAfter int64 `json:"retry_after_ms"`
	}
	type want struct {
		Status  int
		Headers map[string]string
		Body    map[string]string
	}
	answered := map[Outcome]bool{}
	conforming(t, "outcomes.json", 20, func(t *testing.T, g given, w want) {
		answered[g.Outcome] = true
		rec := httptest.NewRecorder()
		write(rec, result{outcome: g.Outcome, after: time.Duration(g.RetryAfter) * time.Millisecond})
		var body map[string]string
		if err := json.Unmarshal(rec.Body.Bytes(), &body); err != nil {
			t.Fatal(err)
		}
		if w.Body["reason"] != "" && body["reason"] != "" {
			w.Body["reason"] = body["reason"]
		}
		headers := map[string]string{}
		for name := range rec.Header() {
			if name != "Content-Length" {
				headers[name] = rec.Header().Get(name)
			}
		}
		if rec.Code != w.Status || !maps.Equal(headers, w.Headers) || !maps.Equal(body, w.Body) {
			t.Errorf("%d %v %v, want %d %v %v", rec.Code, headers, body, w.Status, w.Headers, w.Body)
		}
	})
	for o := range answers {
		if !answered[o] {
			t.Errorf("no case answers %s", o)
		}
	}
}

// described is an error in the words of errors.json.
type described struct {
	Typed      string
	After      int64 `json:"after_ms"`
	Message    string
	Cause      *described
	SQLState   string
	SQLite     int
	Status     int    `json:"http_status"`
	RetryAfter string `json:"retry_after"`
	Timeout    bool
	Cancelled  bool
	Network    string
	JSON       string
	Schema     bool
	Panic      string
}

type stateError string

func (e stateError) Error() string    { return "SQLSTATE " + string(e) }
func (e stateError) SQLState() string { return string(e) }

// err is the error as Go has it.
func (d *described) err() error {
	text := d.Message
	if text == "" {
		text = "the handler failed"
	}
	err := errors.New(text)
	if d.Cause != nil {
		err = fmt.Errorf("%s: %w", text, d.Cause.err())
	}
	unknown := json.NewDecoder(strings.NewReader(`{"a":1}`))
	unknown.DisallowUnknownFields()
	switch {
	case d.Typed != "":
		return map[string]error{"permanent": Permanent(err), "retryable": Retryable(err), "gone": ErrGone, "stale": ErrStale,
			"retry_after": RetryAfter(time.Duration(d.After)*time.Millisecond, err)}[d.Typed]
	case d.SQLState != "":
		return stateError(d.SQLState)
	case d.SQLite&0xff == 19: // as the drivers say it
		return fmt.Errorf("constraint failed: UNIQUE constraint failed: item.id (%d)", d.SQLite)
	case d.SQLite != 0:
		return fmt.Errorf("database is locked (%d)", d.SQLite)
	case d.Status != 0:
		return &StatusError{Status: d.Status, RetryAfter: d.RetryAfter}
	case d.Timeout:
		return context.DeadlineExceeded
	case d.Cancelled:
		return context.Canceled
	case d.Network != "":
		return map[string]error{"refused": &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED},
			"reset": &net.OpError{Op: "read", Err: syscall.ECONNRESET}, "dns": &net.DNSError{Name: "nowhere.example", IsNotFound: true},
			"eof": io.ErrUnexpectedEOF}[d.Network]
	case d.JSON == "syntax":
		return json.Unmarshal([]byte("{"), new(any))
	case d.JSON == "type":
		return json.Unmarshal([]byte(`"a"`), new(int))
	case d.Schema:
		return unknown.Decode(new(struct{}))
	default:
		return err
	}
}

func TestClassesOfErrorsOfTheKits(t *testing.T) {
	type given struct {
		Error      described
		Classifier map[string]string
		Now        int64
	}
	type want struct {
		Class      string
		RetryAfter int64 `json:"retry_after_ms"`
	}
	classes := map[string]Outcome{"retryable": Failed, "permanent": Rejected, "gone": Gone, "stale": Stale}
	conforming(t, "errors.json", 60, func(t *testing.T, g given, w want) {
		k := &Kit{opt: Options{Classify: func(err error) Outcome {
			message, _, _ := strings.Cut(err.Error(), ":")
			return classes[g.Classifier[message]]
		}}}
		err := g.Error.err()
		if err == nil {
			t.Fatal("the test cannot make the error")
		}
		after := retryAfter(err, time.Unix(g.Now, 0))
		if got := k.classify(err); got != classes[w.Class] || after != time.Duration(w.RetryAfter)*time.Millisecond {
			t.Errorf("%v is %s after %s, want %s after %d ms", err, got, after, w.Class, w.RetryAfter)
		}
	})
}
