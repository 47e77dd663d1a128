// Package strict reads JSON from strangers: it refuses what it does not understand, and names every
// field at fault.
//
// Check comes first: it refuses a document that is not UTF-8, not JSON, or nested too deep. Decode
// then reads an object into a struct, by the struct's tags; Members visits the members of an object
// by hand; Merge applies a merge patch. A Value knows its JSON pointer, so a wrong one adds itself
// to the Faults of the request.
//
// What holds here:
//
//   - A member that is unknown or given twice is a fault. So is a text with half of a surrogate
//     pair.
//   - A request learns up to MostFaults faults at once, and no document costs more work than that.
//   - A text that was read shares no memory with the document.
//
// What it does not promise: it knows no field of the API. Which forms texts can have is an argument
// (Forms), and what fields mean together is checked by their handlers.
package strict
