package policy

import "strings"

// Wish is the value of the header webhook-delivery in a receiver's answer.
type Wish string

// The wishes. Any other value has no effect.
const (
	WishNone    Wish = ""
	WishStop    Wish = "stop"    // no more attempts of this delivery
	WishDisable Wish = "disable" // no more deliveries to the endpoint
)

// ParseWish reads the header webhook-delivery. An unknown value is WishNone.
func ParseWish(value string) Wish {
	for _, w := range []Wish{WishStop, WishDisable} {
		if strings.EqualFold(strings.Trim(value, " \t"), string(w)) {
			return w
		}
	}
	return WishNone
}
