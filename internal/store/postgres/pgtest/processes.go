package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// Kill ends all processes of the server with SIGKILL and waits for their end. Start starts it
// again with its data.
func (s *Server) Kill() error {
	pids, err := s.Suspend()
	if err != nil {
		return err
	}
	for _, pid := range pids {
		err = errors.Join(err, signal(pid, syscall.SIGKILL))
	}
	ended := func(context.Context) (bool, error) { return !slices.ContainsFunc(pids, alive), nil }
	if wait := until(context.Background(), ended); wait != nil {
		return fmt.Errorf("PostgreSQL does not end: %w", wait)
	}
	return errors.Join(err, s.running.end("keep\n"))
}

// Suspend stops all processes of the server with SIGSTOP and returns their ids: connections stay
// open, and no request is answered. Resume continues them.
func (s *Server) Suspend() ([]int, error) {
	postmaster, err := s.postmaster()
	if err != nil {
		return nil, err
	}
	pids := []int{postmaster}
	if err := signal(postmaster, syscall.SIGSTOP); err != nil { // first, so that it starts no more children
		return nil, err
	}
	children, err := childrenOf(postmaster)
	for _, pid := range children {
		err = errors.Join(err, signal(pid, syscall.SIGSTOP))
	}
	return append(pids, children...), err
}

// Resume continues the server after Suspend.
func (s *Server) Resume() error {
	postmaster, err := s.postmaster()
	if err != nil {
		return err
	}
	children, err := childrenOf(postmaster)
	for _, pid := range append(children, postmaster) {
		err = errors.Join(err, signal(pid, syscall.SIGCONT))
	}
	return err
}

// postmaster is the parent of all other processes of the server.
func (s *Server) postmaster() (int, error) {
	text, err := os.ReadFile(filepath.Join(s.data(), "postmaster.pid"))
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(string(text), "\n")
	return strconv.Atoi(first)
}

func childrenOf(parent int) (pids []int, err error) {
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	for _, name := range all {
		if state, ppid, ok := stat(name); ok && ppid == parent && state != "Z" {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
			if err != nil {
				return nil, err
			}
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// stat reads a process's state and parent. The name before them may contain anything, in
// parentheses.
func stat(name string) (state string, parent int, ok bool) {
	text, err := os.ReadFile(name)
	if err != nil {
		return "", 0, false
	}
	rest := string(text[strings.LastIndexByte(string(text), ')')+1:])
	fields := strings.Fields(rest)
	if len(fields) < 2 {
		return "", 0, false
	}
	parent, err = strconv.Atoi(fields[1])
	return fields[0], parent, err == nil
}

// alive says whether a process runs. An ended one may be listed until its parent has collected its
// status.
func alive(pid int) bool {
	state, _, ok := stat(fmt.Sprintf("/proc/%d/stat", pid))
	return ok && state != "Z" && state != "X"
}

// signal sends a signal to a process that may just have ended.
func signal(pid int, s syscall.Signal) error {
	if err := syscall.Kill(pid, s); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("signal %v to process %d: %w", s, pid, err)
	}
	return nil
}
