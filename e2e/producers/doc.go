// Package producers proves the helpers of producers in TypeScript and Python from the outside: two
// programs publish to outboxes with the libraries of databases that people use, and a real server
// delivers.
package producers
