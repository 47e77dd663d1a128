package cli

import "testing"

func TestListenAddress(t *testing.T) {
	for _, tc := range []struct{ host, text, want string }{
		{"", "8421", ":8421"}, {"127.0.0.1", "8421", "127.0.0.1:8421"}, {"", "0", ":0"},
		{"", ":8421", ":8421"}, {"", "[::1]:8421", "[::1]:8421"}, {"", "localhost:8421", "localhost:8421"}, {"", "70000", "70000"}, {"", "", ""},
	} {
		if got := ListenAddress(tc.host, tc.text); got != tc.want {
			t.Errorf("ListenAddress(%q, %q) is %q, want %q", tc.host, tc.text, got, tc.want)
		}
	}
}
