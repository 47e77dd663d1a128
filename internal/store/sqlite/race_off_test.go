//go:build !race

package sqlite_test

const slow = false
