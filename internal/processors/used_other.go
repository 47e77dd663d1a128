//go:build !linux && !darwin

package processors

import "time"

// used is the processor time that this process has used; false: the system does not say.
func used() (time.Duration, bool) { return 0, false }
