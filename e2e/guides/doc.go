// Package guides executes the pages of docs/guides, and README's first minute, against the built
// program: the blocks of a page are its test, so a page cannot say what does not work.
//
// Each page runs in namespaces of its own, with an empty directory and an empty network whose names
// lead to loopback. So addresses, ports and names are those of the page, and pages run side by
// side. Services of the internet and installers have stand-ins. A server runs, unless the page
// starts one.
//
// A page is executed from top to bottom:
//
//   - A block of sh is run by the page's bash; the first command that fails fails the test.
//   - A block of console has commands after "$ ", and below each its output. There "…" stands for
//     any text in a line, a line "…" for any lines, and white space for any white space.
//   - Any other block, and a script of sh, begins with a comment that names a file. It is written
//     to that file.
//   - An id such as ep_… in a command is the last id of that kind which a command has printed.
//
// A comment before a block says more:
//
//   - "test: background ADDRESS" runs it until the page ends or another one has that address, and
//     goes on once a server answers there; without an address, at once.
//   - "test: until" repeats it until it succeeds and has its output.
//   - "test: not run: REASON" leaves it out.
//   - "test: call NAME" is a block with commands of testdata that readers do not need, such as
//     checks.
package guides
