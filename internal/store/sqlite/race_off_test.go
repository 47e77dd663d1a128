//go:build !race

package sqlite

const slow = false
