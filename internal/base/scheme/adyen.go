package scheme

import (
	"strings"

	"github.com/grapnelhq/grapnel/internal/base/canonical"
)

// adyenItem is the path of the notification in a body. Each request has one.
const adyenItem = "notificationItems.0.NotificationRequestItem."

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
