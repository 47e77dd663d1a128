package words

import "testing"

func TestUnreachable(t *testing.T) {
	for address, want := range map[string]bool{
		"http://127.0.0.1:8420/in/src_1": true, "http://localhost:8420/in/src_1": true, "http://LOCALHOST./in": true,
		"http://[::1]:8420/in": true,
		"http://10.1.2.3/in":   true, "http://192.168.0.9:8420/in": true, "http://[fd00::1]/in": true, "http://169.254.1.1/in": true,
		"http://0.0.0.0:8420/in": true, "http://[::ffff:127.0.0.1]/in": true, "http://mac.local/in": true, "http://node.internal/in": true,
		"https://hooks.example.com/in/src_1": false, "http://192.0.2.1/in": false,
		"https://[2001:db8::1]/in": false, "/in/src_1": false, "": false,
		"http://localhost.example.com/in": false, "http://%zz": false,
	} {
		if got := Unreachable(address); (got != "") != want {
			t.Errorf("%s: %q", address, got)
		}
	}
}
