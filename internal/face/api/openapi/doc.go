// Package openapi makes the API's own description, the OpenAPI 3.1 document.
//
// Document describes the operations that it is given. It makes schemas of the Go types that they
// take and give, and of the forms that tags name, so the document says what package strict checks.
// The schemas of policies are written by hand (policyschema.go), because package policy reads
// policies without tags. The pages for people are made of the document (package reference).
//
// What holds here: the same operations give the same bytes.
//
// What it does not promise: it knows no route and reads no request. That the handlers do what the
// document says is held by the tests of package api, which send values at and beyond each bound.
package openapi
