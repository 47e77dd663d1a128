package ingress

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
)

// slackSignature signs as Slack does.
func slackSignature(secret, stamp, body string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte("v0:" + stamp + ":" + body))
	return "v0=" + hex.EncodeToString(mac.Sum(nil))
}
