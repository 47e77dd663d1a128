//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// apart gives a handler a process group of its own, so that a terminal's signals do not reach it,
// and has the whole group interrupted when its time is up.
func apart(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
}
