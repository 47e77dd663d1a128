//go:build !unix

package cli

// unstopped does nothing: only Unix stops programs that read a terminal in the background.
func unstopped() {}
