package ingress

import (
	"crypto/sha256"
	"strings"

	"github.com/tidwall/gjson"
)

// adyenItem is the path of the notification in a body. Each request has one.
const adyenItem = "notificationItems.0.NotificationRequestItem."

// adyen checks the signature in a notification, over eight of its fields joined by colons.
//
// Nothing else of the body is signed, so two readers have to find the same fields. Therefore a name
// that occurs twice, in whatever case, and a colon in a field other than the merchant's own
// reference, are refused.
func (in *incoming) adyen() bool {
	sound := in.document().json
	items := only(gjson.ParseBytes(in.body), "notificationItems", &sound)
	if !sound || !items.IsArray() || len(items.Array()) != 1 {
		return in.failed("the body is not one notification")
	}
	item := only(items.Array()[0], "NotificationRequestItem", &sound)
	amount := only(item, "amount", &sound)
	var text strings.Builder
	for i, field := range []struct {
		of   gjson.Result
		name string
	}{
		{item, "pspReference"}, {item, "originalReference"}, {item, "merchantAccountCode"}, {item, "merchantReference"},
		{amount, "value"}, {amount, "currency"}, {item, "eventCode"}, {item, "success"},
	} {
		value := only(field.of, field.name, &sound)
		told := value.Raw
		switch value.Type {
		case gjson.String:
			told = value.Str
		case gjson.Null, gjson.JSON:
			told = ""
		}
		sound = sound && (field.name == "merchantReference" || !strings.Contains(told, ":"))
		if i > 0 {
			text.WriteByte(':')
		}
		text.WriteString(told)
	}
	signature := only(only(item, "additionalData", &sound), "hmacSignature", &sound)
	if !sound {
		return in.failed("a field that is signed is there twice, or has a colon")
	}
	given := decodeSignature("base64", signature.Str, sha256.Size)
	if given == nil {
		return in.failed("additionalData.hmacSignature is missing, or not base64 of the right length")
	}
	in.passed("a signature is there")
	return in.matching("signature", func(k *secret) bool {
		return k.macs.matches([][]byte{given}, func(m *mac) { _, _ = m.WriteString(text.String()) })
	})
}

// only returns a member of an object. sound becomes false if the name occurs more than once.
func only(object gjson.Result, name string, sound *bool) (found gjson.Result) {
	times := 0
	object.ForEach(func(key, value gjson.Result) bool {
		if strings.EqualFold(key.Str, name) {
			times++
			if key.Str == name {
				found = value
			}
		}
		return true
	})
	*sound = *sound && times <= 1
	return found
}
