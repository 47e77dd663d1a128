//go:build linux

package process

import (
	"net"
	"os/exec"
	"sync"
	"testing"
)

// TestAnUnusedAddressRefusesConnections: a process that is started at the same moment keeps no copy
// of the socket with which the address was found.
func TestAnUnusedAddressRefusesConnections(t *testing.T) {
	var starting sync.WaitGroup
	done := make(chan struct{})
	for range 4 {
		starting.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					_ = exec.Command("true").Run()
				}
			}
		})
	}
	defer starting.Wait()
	defer close(done)
	answered := 0
	for range 2000 {
		addr, err := UnusedAddress()
		if err != nil {
			t.Fatal(err)
		}
		if conn, err := net.Dial("tcp", addr); err == nil {
			answered++
			_ = conn.Close()
		}
	}
	if answered > 0 {
		t.Errorf("%d of 2000 addresses were still answered", answered)
	}
}
