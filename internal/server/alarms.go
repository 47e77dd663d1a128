package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/seal"
	"github.com/grapnelhq/grapnel/internal/tell/alarm"
)

// alarmsFile is beside the database. Several nodes of one PostgreSQL may share a directory, so
// there the name has the port.
const alarmsFile = "alarms"

// watch makes the part that tells of the server's own trouble.
func (s *Server) watch(ctx context.Context, place Place) error {
	name := alarmsFile
	if _, port, err := net.SplitHostPort(s.listener.Addr().String()); err == nil && place.url != "" {
		name += "-" + port
	}
	o := alarm.Options{Bounds: s.options.Bounds.Alarm, Look: s.look, Sender: s.sender, Name: s.called,
		Path: filepath.Join(place.dir(), name), Log: s.log}
	if s.options.PublicURL != nil {
		o.URL = s.options.PublicURL.String()
	}
	var err error
	if o.Seal, err = seal.NewFile(ctx, s.options.MasterKey, alarmsFile); err != nil {
		return err
	}
	s.alarms = alarm.New(o)
	return nil
}

// called is what people call this server.
func (s *Server) called() string {
	name := ""
	if s.options.PublicURL != nil {
		name = s.options.PublicURL.Host
	}
	if name == "" {
		name, _ = os.Hostname()
	}
	if name = cmp.Or(name, "the server"); s.options.Name != "" {
		name = s.options.Name + " (" + name + ")"
	}
	if s.lives != nil {
		if node := s.lives.now.Load().engine.Shards().Address(); node != "" {
			name += ", node " + node
		}
	}
	return name
}

// look is what the server knows of its own health. The engine is asked last, because it may hang.
func (s *Server) look(ctx context.Context) (h alarm.Health) {
	l, b := s.lives.now.Load(), s.alarms.Bounds()
	shards := l.engine.Shards()
	err, stalled := l.unable(), shards.Stalled()
	switch failed := l.engine.FailedCommits(); {
	case err != nil && stalled != "" && storeUnable(l.store) == nil:
		h.Unknown = []string{alarm.StoreAway, alarm.CommitsFail, alarm.NoLeader, alarm.NodeLost}
	case err != nil:
		h.Troubles = append(h.Troubles, unableTrouble(err))
		h.Unknown = []string{alarm.CommitsFail, alarm.NoLeader, alarm.NodeLost}
	case failed >= b.Commit:
		h.Troubles = append(h.Troubles, alarm.Trouble{Rule: alarm.CommitsFail, Sure: true,
			Text: fmt.Sprintf("%d commits failed one after another. What they had to record is tried again.", failed)})
	}
	if shards.Leaderless() {
		h.Troubles = append(h.Troubles, alarm.Trouble{Rule: alarm.NoLeader,
			Text: "No node evaluates alerts or purges. This node should, and the database does not let it."})
	}
	for _, n := range shards.Lost() {
		h.Troubles = append(h.Troubles, alarm.Trouble{Rule: alarm.NodeLost, Node: n.ID, Elsewhere: !n.Speaks, Name: cmp.Or(n.Address, n.ID),
			Text: "It is silent, and has not stopped in order. The other nodes take its endpoints over."})
	}
	if !l.closed.Load() {
		h.Listeners = alarm.ByRule(func(rule string) []*grapnel.Endpoint { return l.engine.Listening(ctx, alarm.Sample(rule)) })
	}
	moving, cancel := context.WithTimeout(ctx, b.Within*4/5)
	defer cancel()
	if err := l.engine.Moves(moving); err != nil && ctx.Err() == nil {
		stalled = cmp.Or(stalled, "run")
	}
	if stalled != "" {
		h.Troubles = append(h.Troubles, alarm.Trouble{Rule: alarm.Stalled,
			Text: fmt.Sprintf("Its loop %q has not moved for some time. Deliveries wait; a restart makes them go on.", stalled)})
	}
	return h
}

// unableTrouble is why events are refused, in words for people.
func unableTrouble(err error) alarm.Trouble {
	t := alarm.Trouble{Rule: alarm.StoreAway, Text: "Events are refused with 503, and deliveries may stand still."}
	if grapnel.CodeOf(err) == grapnel.CodeStorageFull {
		t = alarm.Trouble{Rule: alarm.StoreFull,
			Text: "Events are refused with 507 until there is space. Outcomes of deliveries are recorded in reserved space."}
	}
	var is *grapnel.Error
	if errors.As(err, &is) && is.Detail != "" { // its cause is for the log alone
		t.Text += " Reason: " + is.Detail + "."
	}
	return t
}

// unopened tells that the server cannot start because its store is away or full. Other reasons are
// those of the person who starts it.
func (s *Server) unopened(ctx context.Context, err error) {
	code := grapnel.CodeOf(err)
	if s.options.Silent || ctx.Err() != nil || code != grapnel.CodeUnavailable && code != grapnel.CodeStorageFull {
		return
	}
	t := unableTrouble(err)
	t.Text = "The server cannot start. " + t.Text
	s.alarms.Last(ctx, t)
}

// guard tells of trouble until the function that it returns is called.
func (s *Server) guard(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if !s.options.Silent {
			s.alarms.Run(ctx)
		}
	}()
	return func() {
		cancel()
		select {
		case <-done:
		case <-time.After(s.alarms.Bounds().Last): // a disk in trouble may keep the write of the file
		}
	}
}
