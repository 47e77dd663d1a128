package oidc

import (
	"errors"
	"fmt"
)

// Fault is why a sign-in failed. Its text is for the log: it has no token, code or secret in it.
type Fault struct {
	Why Why
	Err error
}

// Error is the text for the log.
func (f *Fault) Error() string { return "oidc: " + f.Err.Error() }

// Unwrap gives the cause.
func (f *Fault) Unwrap() error { return f.Err }

// Why is the kind of a fault, by who can mend it.
type Why string

// The kinds of faults.
const (
	Unreachable Why = "unreachable" // the issuer does not answer, or not usefully
	Misnamed    Why = "misnamed"    // the issuer's documents name another issuer than the settings
	BadClient   Why = "bad_client"  // the issuer refuses this server's client id or secret
	CodeOver    Why = "code_over"   // the code was used before, is too old, or is of another sign-in
	Denied      Why = "denied"      // the issuer or the person refused
	NotBegun    Why = "not_begun"   // this browser began no such sign-in
	BadAnswer   Why = "bad_answer"  // what the browser brought is no answer of the issuer
	BadToken    Why = "bad_token"   // the ID token is not for this server, or is not signed by the issuer
	Clocks      Why = "clocks"      // the clocks of the issuer and this server differ
	Busy        Why = "busy"        // too many sign-ins at once
	NoRole      Why = "no_role"     // no rule gives the person a role
	NoTenant    Why = "no_tenant"   // the issuer does not say which tenant the person belongs to
)

func fault(why Why, format string, args ...any) error {
	return &Fault{why, fmt.Errorf(format, args...)}
}

// WhyOf is the kind of an error of this package; empty: it is of none.
func WhyOf(err error) Why {
	if f, ok := errors.AsType[*Fault](err); ok {
		return f.Why
	}
	return ""
}

// refusals are the error codes of RFC 6749 and OpenID Connect whose cause is known. A code is text
// from outside: others are not repeated.
var refusals = map[string]Why{
	"access_denied": Denied, "login_required": Denied, "consent_required": Denied, "interaction_required": Denied,
	"account_selection_required": Denied, "invalid_client": BadClient, "unauthorized_client": BadClient, "invalid_scope": BadClient,
	"invalid_request": BadClient, "unsupported_response_type": BadClient, "unsupported_grant_type": BadClient,
	"invalid_grant": CodeOver, "server_error": Unreachable, "temporarily_unavailable": Unreachable,
}

// refusal is the fault of an error code of the issuer.
func refusal(code string) error {
	if why, known := refusals[code]; known {
		return fault(why, "the issuer answered %s", code)
	}
	return fault(BadAnswer, "the issuer answered an error code that is unknown")
}
