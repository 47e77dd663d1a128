package grapnel

import (
	"log/slog"
	"time"
)

// Secret is a text that only this server and one other may know, such as the secret that signs
// deliveries, whose text form starts with whsec_ (symmetric) or whsk_ (ed25519): see package sign.
// Logs and formatted output redact it.
type Secret struct {
	Text      string
	CreatedAt time.Time
	ExpiresAt time.Time // zero: does not expire
}

// Live says whether the secret signs at the given time.
func (s Secret) Live(now time.Time) bool { return s.ExpiresAt.IsZero() || now.Before(s.ExpiresAt) }

// String keeps the secret out of formatted output.
func (Secret) String() string { return "[redacted]" }

// GoString keeps the secret out of %#v.
func (Secret) GoString() string { return "[redacted]" }

// LogValue keeps the secret out of logs.
func (Secret) LogValue() slog.Value { return slog.StringValue("[redacted]") }

// MarshalText redacts the secret in JSON, for example inside a logged endpoint. Code that stores
// secrets names their fields itself.
func (Secret) MarshalText() ([]byte, error) { return []byte("[redacted]"), nil }
