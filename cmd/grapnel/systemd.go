package main

import (
	"context"
	"log/slog"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/grapnelhq/grapnel/internal/server"
)

// supervisor tells systemd how the server is, by the protocol of sd_notify(3): datagrams to the
// socket that NOTIFY_SOCKET names. The zero supervisor tells no one.
type supervisor struct {
	socket string
	within time.Duration // systemd ends the process without a sign of life for so long; 0: it does not
	log    *slog.Logger
}

func (s *session) supervisor(log *slog.Logger) supervisor {
	get := func(name string) string { value, _ := s.Lookup(name); return value }
	is := supervisor{socket: get("NOTIFY_SOCKET"), log: log}
	micros, err := strconv.ParseInt(get("WATCHDOG_USEC"), 10, 64)
	// A process that inherited the variables is not the one that is watched.
	if pid := get("WATCHDOG_PID"); err == nil && micros > 0 && (pid == "" || pid == strconv.Itoa(os.Getpid())) {
		is.within = time.Duration(micros) * time.Microsecond
	}
	return is
}

// tell sends one message. A failure is logged and has no other effect: systemd acts on the silence.
func (s supervisor) tell(ctx context.Context, message string) {
	if s.socket == "" {
		return
	}
	conn, err := new(net.Dialer).DialContext(ctx, "unixgram", s.socket)
	if err == nil {
		_, err = conn.Write([]byte(message))
		_ = conn.Close()
	}
	if err != nil {
		s.log.Warn("systemd not notified", "message", message, "err", err)
	}
}

// watch says that the server is ready, then gives signs of life while its store answers, and says
// when it stops. It returns when ctx ends.
//
// A check begins a third of the limit after the last one ended and takes at most half of it, so two
// signs of a server that answers are never a whole limit apart.
func (s supervisor) watch(ctx context.Context, srv *server.Server) {
	s.tell(ctx, "READY=1")
	defer s.tell(context.WithoutCancel(ctx), "STOPPING=1")
	if s.socket == "" || s.within == 0 {
		<-ctx.Done()
		return
	}
	beat := time.NewTimer(0)
	defer beat.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-beat.C:
		}
		checking, cancel := context.WithTimeout(ctx, s.within/2)
		if srv.Answers(checking) {
			s.tell(ctx, "WATCHDOG=1")
		} else if ctx.Err() == nil {
			s.log.Error("store does not answer; systemd gets no sign of life", "limit", s.within.String())
		}
		cancel()
		beat.Reset(s.within / 3)
	}
}
