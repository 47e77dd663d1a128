// Package reference makes the API reference: pages for people, and the same as Markdown, out of the
// OpenAPI document.
//
// New reads the document once. A page is a group of operations, a schema, or a text: the texts are
// Markdown files of this package, below which problems or webhooks of the document may stand. HTML
// draws a page for a reader who reaches the server at an address; Markdown writes its twin.
//
// What holds here: every operation of the document is on exactly one page, every schema has one,
// and no page has a secret. Text from the document is escaped by html/template.
//
// What it does not promise: it knows no session and serves nothing. Package web puts the pages into
// their frame and sends them.
package reference
