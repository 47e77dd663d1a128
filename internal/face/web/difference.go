package web

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/grapnelhq/grapnel/internal/base/say"
)

const (
	mostDiffCells = 1 << 20 // of the table of a comparison: 1,000 lines with 1,000
	mostDiffLines = 400     // that a page shows
	diffAround    = 3       // lines without a difference that are shown around one
)

// difference compares two texts by their lines. What both begin and end with is taken off first.
// Where the rest of both is too long for the table, the lines are not aligned: all of the first are
// followed by all of the second.
func difference(a, b string) (all []diffLine, differs bool) {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for len(x) > 0 && len(y) > 0 && x[0] == y[0] {
		all, x, y = append(all, diffLine{"same", " ", x[0]}), x[1:], y[1:]
	}
	var tail []diffLine
	for len(x) > 0 && len(y) > 0 && x[len(x)-1] == y[len(y)-1] {
		tail, x, y = append(tail, diffLine{"same", " ", x[len(x)-1]}), x[:len(x)-1], y[:len(y)-1]
	}
	differs = len(x)+len(y) > 0
	all = append(all, aligned(x, y)...)
	slices.Reverse(tail)
	return append(all, tail...), differs
}

// aligned finds the longest common lines of two texts.
func aligned(x, y []string) (all []diffLine) {
	width := len(y) + 1
	var common []int32 // by the lines of x and y that are left
	if (len(x)+1)*width <= mostDiffCells {
		common = make([]int32, (len(x)+1)*width)
		for i := len(x) - 1; i >= 0; i-- {
			for j := len(y) - 1; j >= 0; j-- {
				common[i*width+j] = max(common[(i+1)*width+j], common[i*width+j+1])
				if x[i] == y[j] {
					common[i*width+j] = common[(i+1)*width+j+1] + 1
				}
			}
		}
	}
	i, j := 0, 0
	for i < len(x) || j < len(y) {
		switch {
		case common != nil && i < len(x) && j < len(y) && x[i] == y[j]:
			all = append(all, diffLine{"same", " ", x[i]})
			i, j = i+1, j+1
		case i < len(x) && (common == nil || j == len(y) || common[(i+1)*width+j] >= common[i*width+j+1]):
			all = append(all, diffLine{"less", "−", x[i]})
			i++
		default:
			all = append(all, diffLine{"more", "+", y[j]})
			j++
		}
	}
	return all
}

// folded leaves out lines that are far from any difference, and lines beyond what a page shows.
func folded(all []diffLine) (few []diffLine) {
	left := 0
	leave := func() {
		if left > 0 {
			few = append(few, diffLine{"gap", "…", say.Many(left, "line", "lines") + " without a difference"})
		}
		left = 0
	}
	near := make([]bool, len(all))
	for i := range all {
		for k := i - diffAround; all[i].Tone != "same" && k <= i+diffAround; k++ {
			if k >= 0 && k < len(all) {
				near[k] = true
			}
		}
	}
	for i, line := range all {
		if !near[i] {
			left++
			continue
		}
		leave()
		if len(few) >= mostDiffLines {
			return append(few, diffLine{"gap", "…", say.Many(len(all)-i, "line more", "lines more")})
		}
		few = append(few, line)
	}
	leave()
	return few
}

// lined is a body as lines: JSON is indented, with its numbers and the order of its keys.
func lined(body []byte) string {
	var b bytes.Buffer
	if json.Indent(&b, body, "", "  ") == nil {
		return b.String()
	}
	return string(body)
}
