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
	if c.socket == nil {
		socket, ok := c.below.(syscall.Conn)
		if !ok {
			return true // not a socket: a test's pipe
		}
		raw, err := socket.SyscallConn()
		if err != nil {
			return false
		}
		c.socket, c.peek = raw, func(fd uintptr) bool {
			_, _, c.peeked = syscall.Recvfrom(int(fd), c.byte[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
			return true
		}
	}
	err := c.socket.Read(c.peek)
	return err == nil && errors.Is(c.peeked, syscall.EAGAIN)
}
