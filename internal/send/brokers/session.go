package brokers

import "context"

// session is a connection that several sends share. It is made by the first of them; the others
// wait for it as long as their contexts allow.
type session[C any] struct {
	turn chan struct{} // holds an entry while somebody makes or ends the connection
	is   *C            // nil: there is none
}

func newSession[C any]() session[C] { return session[C]{turn: make(chan struct{}, 1)} }

// get returns the connection if it is still good, or makes another one.
func (s *session[C]) get(ctx context.Context, good func(*C) bool, end func(*C), open func(context.Context) (*C, error)) (*C, error) {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if s.is != nil && good(s.is) {
		return s.is, nil
	}
	if s.is != nil {
		end(s.is)
		s.is = nil
	}
	is, err := open(ctx)
	if err == nil {
		s.is = is
	}
	return is, err
}

// close ends the connection. No get runs any more.
func (s *session[C]) close(end func(*C)) {
	if s.is != nil {
		end(s.is)
		s.is = nil
	}
}
