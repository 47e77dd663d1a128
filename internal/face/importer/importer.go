// Package importer brings endpoints, event types and tenants of another system to a Grapnel server.
//
// A source (Svix, Convoy, CSV) reads the other system and returns its objects in the terms of the
// API. Compare makes a plan of these and of the objects that the server has. Apply carries the plan
// out through the API, with the caller's key.
//
// It can be repeated, and continued after an interruption, because nothing is remembered outside of
// the server. A label of each endpoint has the other system's id, and a label of each object has a
// mark of the settings and of the secret as they were imported (mark.go). So an object that a
// person has changed here is told from one that was changed there. The former is overwritten only
// if the caller asks for it.
//
// An endpoint is not created if it would get other events, other bodies or other signatures than
// before: Want.Blocked has the reason. Lesser losses are listed in Want.Lost. Convoy signs in a way
// of its own, so all of its receivers have to change; a note says so.
//
// It does not promise more than its sources do: events, attempts and their history stay where they
// are.
package importer
