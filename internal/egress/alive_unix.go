//go:build unix

package egress

import (
	"errors"
	"syscall"
)

// alive says whether an idle connection is unchanged: the receiver has neither closed it nor sent
// anything. No goroutine reads from an idle connection, so this check finds a close before a
// request is lost on it.
func (c *conn) alive() bool {
	socket, ok := c.below.(syscall.Conn)
	if !ok {
		return true // not a socket: a test's pipe
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return false
	}
	var peeked error
	err = raw.Read(func(fd uintptr) bool {
		var b [1]byte
		_, _, peeked = syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		return true
	})
	return err == nil && errors.Is(peeked, syscall.EAGAIN)
}
