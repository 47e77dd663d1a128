package egress

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/grapnelhq/grapnel/policy"
)

// TestReceiverOfIPv6WithoutIPv6: a machine without IPv6 cannot reach a receiver that has only such
// an address. That is a failed attempt of this endpoint, which its policy ends, and not a fault of
// this server that is tried for ever.
func TestReceiverOfIPv6WithoutIPv6(t *testing.T) {
	const inside, disabled = "GRAPNEL_TEST_WITHOUT_IPV6", "/proc/sys/net/ipv6/conf/all/disable_ipv6"
	if os.Getenv(inside) == "" {
		// the test's own network, whose settings it may change
		again := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		again.Env = append(os.Environ(), inside+"=1")
		again.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
		if os.Getuid() != 0 {
			t.Skip("only root can make a network without IPv6")
		}
		if said, err := again.CombinedOutput(); err != nil {
			t.Errorf("%v:\n%s", err, said)
		}
		return
	}
	if err := os.WriteFile(disabled, []byte("1"), 0); err != nil {
		t.Fatal(err)
	}
	s := sender(t, Options{})
	r := send(s, delivery(endpoint("http://[2606:4700::1111]/")))
	if r.Outcome.Class != policy.ClassConnect || r.Error != "no connection could be made: network is unreachable" {
		t.Errorf("%+v: %s", r.Outcome, r.Error)
	}
}
