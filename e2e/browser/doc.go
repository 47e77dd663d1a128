// Package browser proves the dashboard in a real browser, on the real binary. It starts chromium
// and `grapnel serve` or `grapnel dev` on loopback, and does what a person does: clicks, keys, and
// looking at what the page shows.
//
// What holds for every page that a test opens, without the test asking for it: nothing is written
// to the console as a warning or an error, the Content-Security-Policy is never violated, no
// request goes to another host, and no dialog opens. A test says which exceptions it makes (allow).
//
// A test waits for what a page shows, never for a time. Deadlines only bound how long a failing
// test takes. When a test fails, the message names a directory with a picture and the HTML of its
// page.
//
// GRAPNEL_SHOTS=directory has the tour of all pages store a picture of each of them there.
package browser
