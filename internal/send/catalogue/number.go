package catalogue

import (
	"cmp"
	"math"
	"math/big"
	"strconv"
	"strings"
)

// decimal is a JSON number by its digits: 0.digits times ten to the power of point. The digits
// begin and end with none that is 0, so equal numbers have equal fields; 0 has no digits.
type decimal struct {
	negative bool
	digits   string
	point    int64
}

// farthest is the largest power of ten that is told apart from larger ones.
const farthest = math.MaxInt64 / 4

// parseDecimal reads the text of a JSON number. It takes time in proportion to the text.
func parseDecimal(text string) decimal {
	var d decimal
	text, d.negative = strings.CutPrefix(text, "-")
	if at := strings.IndexAny(text, "eE"); at >= 0 {
		exponent, err := strconv.ParseInt(text[at+1:], 10, 64)
		if err != nil && text[at+1] == '-' || exponent < -farthest {
			exponent = -farthest
		} else if err != nil || exponent > farthest {
			exponent = farthest
		}
		text, d.point = text[:at], exponent
	}
	whole, fraction, _ := strings.Cut(text, ".")
	d.point += int64(len(whole))
	digits := whole + fraction
	trimmed := strings.TrimLeft(digits, "0")
	d.point -= int64(len(digits) - len(trimmed))
	d.digits = strings.TrimRight(trimmed, "0")
	if d.digits == "" {
		return decimal{}
	}
	return d
}

// sign is -1, 0 or 1.
func (d decimal) sign() int {
	switch {
	case d.digits == "":
		return 0
	case d.negative:
		return -1
	}
	return 1
}

// compare is -1, 0 or 1 as d is below, equal to or above other.
func (d decimal) compare(other decimal) int {
	if s, o := d.sign(), other.sign(); s != o || s == 0 {
		return cmp.Compare(s, o)
	}
	return cmp.Or(cmp.Compare(d.point, other.point), strings.Compare(d.digits, other.digits)) * d.sign()
}

func (d decimal) integer() bool { return d.point >= int64(len(d.digits)) }

// canonical is the same text for equal numbers.
func (d decimal) canonical() string {
	sign := ""
	if d.negative {
		sign = "-"
	}
	return sign + d.digits + "e" + strconv.FormatInt(d.point, 10)
}

// multiple says whether d is a whole number of times m, which is above 0. Neither is written out:
// d's digits end with none that is 0, so no power of ten below 1 can be made up for by them.
func (d decimal) multiple(m decimal) bool {
	if d.sign() == 0 {
		return true
	}
	shift := (d.point - int64(len(d.digits))) - (m.point - int64(len(m.digits)))
	if shift < 0 {
		return false
	}
	of, number := new(big.Int), new(big.Int)
	of.SetString(m.digits, 10)
	number.SetString(d.digits, 10)
	power := new(big.Int).Exp(big.NewInt(10), big.NewInt(shift), of)
	return number.Mul(number.Mod(number, of), power).Mod(number, of).Sign() == 0
}

// String is the number for people.
func (d decimal) String() string {
	sign, n := "", int64(len(d.digits))
	if d.negative {
		sign = "-"
	}
	switch {
	case n == 0:
		return "0"
	case d.point >= n && d.point <= 21:
		return sign + d.digits + strings.Repeat("0", int(d.point-n))
	case d.point > 0 && d.point < n:
		return sign + d.digits[:d.point] + "." + d.digits[d.point:]
	case d.point <= 0 && d.point > -6:
		return sign + "0." + strings.Repeat("0", int(-d.point)) + d.digits
	}
	return sign + "0." + d.digits + "e" + strconv.FormatInt(d.point, 10)
}
