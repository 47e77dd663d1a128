package main

import "testing"

// TestIngestURL: what a provider is given can be reached, also where the server is below a path.
func TestIngestURL(t *testing.T) {
	for _, c := range []struct{ server, said, want string }{
		{"http://127.0.0.1:8420", "/in/src_1", "http://127.0.0.1:8420/in/src_1"},
		{"http://127.0.0.1:8420/", "/in/src_1", "http://127.0.0.1:8420/in/src_1"},
		{"https://proxy.example/hooks", "/in/src_1", "https://proxy.example/hooks/in/src_1"},
		{"https://proxy.example/hooks/", "/hooks/in/src_1", "https://proxy.example/hooks/in/src_1"},
		{"https://proxy.example/hooks", "/hooksmore/in/src_1", "https://proxy.example/hooks/hooksmore/in/src_1"},
		{"https://inside.example", "https://example.com/hooks/in/src_1", "https://example.com/hooks/in/src_1"},
	} {
		if got := ingestURL(c.server, c.said); got != c.want {
			t.Errorf("%s at %s: %s, want %s", c.said, c.server, got, c.want)
		}
	}
}
