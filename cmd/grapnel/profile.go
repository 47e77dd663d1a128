//go:build profile

package main

import (
	"errors"
	"os"
	"runtime/pprof"
	"time"
)

// profileEvery is the length of a part of a profile. The last part, which the end of the process
// cuts off, is lost.
const profileEvery = 5 * time.Second

func init() { //nolint:gochecknoinits // only in the program that `make profile` measures
	go func() {
		for {
			if err := profiled(os.Getenv("CPUPROFILE")); err != nil {
				panic(err)
			}
		}
	}()
}

// profiled writes what takes the processor's time, during a part, into a file of a directory.
func profiled(dir string) error {
	file, err := os.CreateTemp(dir, "*.prof")
	if err != nil {
		return err
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return errors.Join(err, file.Close())
	}
	<-time.After(profileEvery)
	pprof.StopCPUProfile()
	return file.Close()
}
