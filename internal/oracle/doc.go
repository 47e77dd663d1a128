// Package oracle holds Grapnel's own implementations against the official libraries of the standards that they follow, in
// both directions. It is a module of its own, so that these libraries never become part of a Grapnel binary. Run it with
// "cd internal/oracle && go test ./...".
package oracle
