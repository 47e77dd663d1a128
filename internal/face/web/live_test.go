package web

import (
	"context"
	"testing"
)

// TestAWatcherThatLeavesEmptiesNoPage: two browsers open the same page at once. The first leaves
// while the page is read. The second gets the page, and not an empty one until the next look.
func TestAWatcherThatLeavesEmptiesNoPage(t *testing.T) {
	s := newSite(t, nil)
	s.signIn()
	r := &reader{}
	gone, leave := context.WithCancel(t.Context())
	leave()
	v := s.visitOf("/deliveries")
	v.Request = v.WithContext(gone)
	if _, _, err := r.look(v); err == nil {
		t.Error("a page was read for a browser that has left")
	}
	if main, version, err := r.look(s.visitOf("/deliveries")); len(main) == 0 || version != 1 || err != nil {
		t.Errorf("the other browser gets %d bytes of version %d, %v", len(main), version, err)
	}
}
