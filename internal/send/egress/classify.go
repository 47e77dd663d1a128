package egress

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/grapnelhq/grapnel/policy"
)

const maxErrorText = 240

// dialError is the failure to connect. Its text is for the endpoint's owner. The error it wraps may
// name addresses and name servers of our own network and is never shown.
type dialError struct {
	class policy.Class
	text  string
	err   error
}

func (e *dialError) Error() string { return e.text }
func (e *dialError) Unwrap() error { return e.err }

// classify returns the class and the text of an error of the request, or of reading its answer. The
// caller has ruled out timeouts and our own shutdown.
func classify(err error) (policy.Class, string) {
	var dial *dialError
	var op *net.OpError
	var verify *tls.CertificateVerificationError
	switch {
	case errors.Is(err, errBlocked):
		return policy.ClassBlocked, "the endpoint's address is one that deliveries may not go to"
	case errors.As(err, &dial):
		return dial.class, dial.text
	case errors.As(err, &op) && (op.Op == "remote error" || op.Op == "local error"), errors.As(err, &verify):
		// an alert after the handshake, as for a client certificate that is missing; or a handshake
		// that a broker's driver made, as that of NATS does
		return policy.ClassTLS, tlsText(err)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.ErrClosedPipe), op != nil,
		errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, net.ErrClosed):
		return policy.ClassReset, "the receiver closed the connection before its answer was complete"
	default:
		return policy.ClassProtocol, protocolText(err)
	}
}

func connectError(err error) error {
	text := "no connection could be made"
	var errno syscall.Errno
	switch {
	case exhausted(err):
		return &dialError{class: policy.ClassInternal, text: "the server has too many open connections", err: err}
	case errors.As(err, &errno):
		text += ": " + errno.Error() // "connection refused", without the address
	case errors.Is(err, context.DeadlineExceeded) || isTimeout(err):
		text += ": no answer in time"
	}
	return &dialError{class: policy.ClassConnect, text: text, err: err}
}

// exhausted says whether this machine, not the receiver, caused the failure to connect: it has no
// descriptors, ports or memory left. For a lookup, package net preserves only the text of such an
// error.
func exhausted(err error) bool {
	for _, errno := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.EADDRNOTAVAIL, syscall.ENOBUFS, syscall.ENOMEM} {
		if errors.Is(err, errno) || strings.HasSuffix(err.Error(), ": "+errno.Error()) {
			return true
		}
	}
	return false
}

func lookupError(ctx context.Context, err error) error {
	text := "the name could not be resolved"
	var dns *net.DNSError
	switch {
	case exhausted(err):
		return connectError(err)
	case ctx.Err() != nil || isTimeout(err):
		text = "the name could not be resolved in time"
	case errors.As(err, &dns) && dns.IsNotFound:
		text = "the name does not exist"
	}
	return &dialError{class: policy.ClassDNS, text: text, err: err}
}

// tlsText returns the text of crypto/tls and crypto/x509 about certificates and alerts. Errors of
// the connection below are replaced, because they name its addresses.
func tlsText(err error) string {
	var op *net.OpError
	var verify *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	switch {
	case errors.As(err, &verify):
		return "the TLS handshake failed: " + certificateText(verify.Err)
	case errors.As(err, &record):
		return "the TLS handshake failed: the receiver does not speak TLS on this port"
	case errors.As(err, &op) && (op.Op == "remote error" || op.Op == "local error"):
		return "the TLS handshake failed: " + op.Op + ": " + op.Err.Error()
	case op != nil, errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.ErrClosedPipe):
		return "the TLS handshake failed: the receiver closed the connection"
	default:
		return cut("the TLS handshake failed: " + err.Error())
	}
}

func certificateText(err error) string {
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return "the certificate is not valid for this host"
	}
	return cut(err.Error())
}

// protocolText returns the text of net/http about an answer that is not HTTP. It may quote the
// receiver.
func protocolText(err error) string {
	text := err.Error()
	for _, prefix := range []string{"net/http: ", "HTTP/1.x transport connection broken: ", "http: "} {
		text = strings.TrimPrefix(text, prefix)
	}
	return cut("the answer is not valid HTTP: " + text)
}

func isTimeout(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.As(err, &timeout) && timeout.Timeout()
}

// clean is a text that every store takes: valid UTF-8 without NUL, which PostgreSQL refuses.
func clean(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}

func cut(text string) string {
	text = clean(text)
	if len(text) > maxErrorText {
		text = strings.ToValidUTF8(text[:maxErrorText], "") + "…"
	}
	return text
}
