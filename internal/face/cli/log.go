package cli

import (
	"log/slog"
	"strings"

	"github.com/lmittmann/tint"
)

// LogsJSON says whether Logger has made a log of JSON: every line on stdout and stderr is a JSON
// object then.
func (w *World) LogsJSON() bool { return w.lines != nil }

// LogLevel checks the two settings of a log, and returns its least level.
func LogLevel(format, level string) (least slog.Level, err error) {
	if err := least.UnmarshalText([]byte(strings.ToUpper(level))); err != nil {
		return least, Usagef("--log-level %s: the levels are debug, info, warn and error", level)
	}
	if format != "json" && format != "text" {
		return least, Usagef("--log-format %s: the formats are text and json", format)
	}
	return least, nil
}

// Logger makes the server's log, on stderr: JSON, or text, in colour on a terminal. least may
// change while it is in use.
func (w *World) Logger(format string, least slog.Leveler) *slog.Logger {
	switch {
	case format == "json":
		w.lines = slog.New(slog.NewJSONHandler(w.Stderr, nil)) // notes and errors are written at any level of the log
		return slog.New(slog.NewJSONHandler(w.Stderr, &slog.HandlerOptions{Level: least}))
	case w.Colour(w.Stderr):
		return slog.New(tint.NewTextHandler(w.Stderr, &tint.Options{Level: least, TimeFormat: "15:04:05.000"}))
	}
	return slog.New(slog.NewTextHandler(w.Stderr, &slog.HandlerOptions{Level: least}))
}
