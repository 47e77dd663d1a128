package scheme

import "testing"

// TestSecretHeaders: a name means the same header in any case, as brokers' headers have them.
func TestSecretHeaders(t *testing.T) {
	for name, secret := range map[string]bool{"Authorization": true, "authorization": true, "x-gitlab-token": true, "SET-COOKIE": true,
		"webhook-id": false, "": false} {
		if IsSecret(name) != secret {
			t.Errorf("%q is a secret: %v, want %v", name, !secret, secret)
		}
	}
}
