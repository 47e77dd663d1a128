//go:build !unix

package torture

import "os/exec"

// Process groups are of Unix: elsewhere the command alone is ended.
func apart(*exec.Cmd) {}

func kill(cmd *exec.Cmd)      { _ = cmd.Process.Kill() }
func terminate(cmd *exec.Cmd) { _ = cmd.Process.Kill() }
