package scheme

import (
	"crypto/sha256"
	"strings"

	"github.com/grapnelhq/grapnel/internal/base/canonical"
)

// adyenItem is the path of the notification in a body. Each request has one.
const adyenItem = "notificationItems.0.NotificationRequestItem."

// adyen checks the signature in a notification, over eight of its fields joined by colons.
//
// Nothing else of the body is signed, so two readers have to find the same fields. Therefore a name
// that occurs twice, in whatever case, and a colon in a field other than the merchant's own
// reference, are refused.
func (in *Request) adyen() bool {
	text, signature, sound := in.adyenText()
	if text == "" {
		return in.failed("the body is not one notification")
	}
	if !sound {
		return in.failed("a field that is signed is there twice, or has a colon")
	}
	given := decodeSignature("base64", signature, sha256.Size)
	if given == nil {
		return in.unsigned("additionalData.hmacSignature is missing, or not base64 of the right length")
	}
	in.passed("a signature is there")
	return in.matching("signature", func(k *secret) bool {
		return k.macs.matches([][]byte{given}, func(m *mac) { _, _ = m.WriteString(text) })
	})
}

// adyenText is the signed text of a notification, and the signature in it. No text: the body is not
// one notification. Not sound: two readers may find different fields.
func (in *Request) adyenText() (signed, signature string, sound bool) {
	if sound = in.Document().JSON; !sound {
		return "", "", false
	}
	items := only(canonical.Root(in.body), "notificationItems", &sound)
	first, count := canonical.Value{}, 0
	for _, v := range items.Members() {
		first, count = v, count+1
	}
	if !sound || count != 1 || items.Raw[0] != '[' {
		return "", "", false
	}
	item := only(first, "NotificationRequestItem", &sound)
	amount := only(item, "amount", &sound)
	var text strings.Builder
	for i, field := range []struct {
		of   canonical.Value
		name string
	}{
		{item, "pspReference"}, {item, "originalReference"}, {item, "merchantAccountCode"}, {item, "merchantReference"},
		{amount, "value"}, {amount, "currency"}, {item, "eventCode"}, {item, "success"},
	} {
		value := only(field.of, field.name, &sound)
		told, is := value.Text()
		if !is && value.Exists() && value.Raw[0] != '{' && value.Raw[0] != '[' && value.Raw[0] != 'n' {
			told = string(value.Raw)
		}
		sound = sound && (field.name == "merchantReference" || !strings.Contains(told, ":"))
		if i > 0 {
			text.WriteByte(':')
		}
		text.WriteString(told)
	}
	signature, _ = only(only(item, "additionalData", &sound), "hmacSignature", &sound).Text()
	return text.String(), signature, sound
}

// only returns a member of an object. sound becomes false if the name occurs more than once.
func only(object canonical.Value, name string, sound *bool) (found canonical.Value) {
	times := 0
	for key, value := range object.Members() {
		if strings.EqualFold(key, name) {
			times++
			if key == name {
				found = value
			}
		}
	}
	*sound = *sound && times <= 1
	return found
}
