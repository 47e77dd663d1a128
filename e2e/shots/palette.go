//go:build linux

package main

import (
	"bytes"
	"cmp"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"slices"
)

// Colours of a palette: most of them those with the most pixels, the rest those that are the least
// like any other, so that a small red dot on a page of text stays red.
const (
	frequent = 30
	rare     = 17
)

// shrink gives a picture a palette. Pages have few colours, so what changes are shades on the edges
// of letters.
func shrink(picture []byte) ([]byte, error) {
	decoded, err := png.Decode(bytes.NewReader(picture))
	if err != nil {
		return nil, err
	}
	bounds := decoded.Bounds()
	whole := image.NewRGBA(bounds)
	draw.Draw(whole, bounds, decoded, bounds.Min, draw.Src)
	counts := map[color.RGBA]int{}
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			counts[whole.RGBAAt(x, y)]++
		}
	}
	palette := choose(counts)
	index := map[color.RGBA]uint8{}
	small := image.NewPaletted(bounds, palette)
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			c := whole.RGBAAt(x, y)
			i, found := index[c]
			if !found {
				i = uint8(palette.Index(c)) //nolint:gosec // a palette has at most 256 colours
				index[c] = i
			}
			small.SetColorIndex(x, y, i)
		}
	}
	var out bytes.Buffer
	err = (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, small)
	return out.Bytes(), err
}

// choose chooses the palette for colours with these numbers of pixels.
func choose(counts map[color.RGBA]int) color.Palette {
	colours := slices.SortedFunc(maps.Keys(counts), func(a, b color.RGBA) int {
		return cmp.Or(counts[b]-counts[a], int(a.R)-int(b.R), int(a.G)-int(b.G), int(a.B)-int(b.B))
	})
	n := min(len(colours), frequent)
	var palette color.Palette
	for _, c := range colours[:n] {
		palette = append(palette, c)
	}
	rest := colours[n:]
	far := make([]int, len(rest)) // from the nearest colour of the palette
	for i, c := range rest {
		far[i] = distance(c, palette[palette.Index(c)].(color.RGBA))
	}
	for range min(rare, len(rest)) {
		most := 0
		for i := range far {
			if far[i] > far[most] {
				most = i
			}
		}
		palette = append(palette, rest[most])
		for i, c := range rest {
			far[i] = min(far[i], distance(c, rest[most]))
		}
	}
	return palette
}

func distance(a, b color.RGBA) int {
	r, g, bl := int(a.R)-int(b.R), int(a.G)-int(b.G), int(a.B)-int(b.B)
	return r*r + g*g + bl*bl
}
