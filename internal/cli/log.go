package cli

import (
	"log/slog"
	"strings"

	"github.com/lmittmann/tint"
)

// Logger makes the server's log, on stderr: text, in colour on a terminal, or JSON.
func (w *World) Logger(format, level string) (*slog.Logger, error) {
	var least slog.Level
	if err := least.UnmarshalText([]byte(strings.ToUpper(level))); err != nil {
		return nil, Usagef("--log-level %s: the levels are debug, info, warn and error", level)
	}
	options := &slog.HandlerOptions{Level: least}
	switch format {
	case "json":
		return slog.New(slog.NewJSONHandler(w.Stderr, options)), nil
	case "text":
		if w.Colour(w.Stderr) {
			return slog.New(tint.NewTextHandler(w.Stderr, &tint.Options{Level: least, TimeFormat: "15:04:05.000"})), nil
		}
		return slog.New(slog.NewTextHandler(w.Stderr, options)), nil
	}
	return nil, Usagef("--log-format %s: the formats are text and json", format)
}
