//go:build linux

package main

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestEveryPageHasAPicture: each row of the dashboard's pages has pictures in all sizes, themes and
// states, under names of its own, and no name needs quotes in a shell or a link.
func TestEveryPageHasAPicture(t *testing.T) {
	plain := regexp.MustCompile(`^[a-z0-9-]+$`)
	names, pages := map[string]bool{}, map[string]int{}
	for _, state := range []string{empty, full} {
		for _, s := range shots(state) {
			if name := s.name(); names[name] || !plain.MatchString(name) {
				t.Errorf("%s: the name %s is used twice, or is not plain", s.path, name)
			}
			names[s.name()] = true
			if s.size != paper {
				pages[s.page()]++
			}
		}
	}
	for page, n := range pages {
		if n != 2*len(sizes)*len(themes) {
			t.Errorf("%s has %d pictures", page, n)
		}
	}
}

func TestTargets(t *testing.T) {
	ids := map[string]string{"deliveries": "dlv_1", "endpoints": "ep_1"}
	for _, c := range []struct {
		path, want string
		ok         bool
	}{
		{"/{$}", "/", true},
		{"/deliveries/{id}", "/deliveries/dlv_1", true},
		{"/replays/{id}", "", false},
		{"/replays/new", "/replays/new?q=status:failed+endpoint:ep_1", true},
		{"/policies/{id}", "/policies/standard?outage=6h", true},
	} {
		got, ok := shot{path: c.path}.target(ids)
		if ok != c.ok || ok && got != c.want {
			t.Errorf("%s leads to %s, %v; want %s, %v", c.path, got, ok, c.want, c.ok)
		}
	}
}

// TestCommittedPictures: the pictures in the repository are those that README.md and docs show, and
// those of README.md have words for people who cannot see them.
func TestCommittedPictures(t *testing.T) {
	root := filepath.Join("..", "..")
	files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(committed), "*"))
	if err != nil {
		t.Fatal(err)
	}
	var have []string
	for _, file := range files {
		have = append(have, strings.TrimSuffix(filepath.Base(file), ".png"))
	}
	want, err := shown(root)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(have)
	slices.Sort(want)
	if !slices.Equal(have, want) {
		t.Errorf("%s has %v; README.md and docs show %v", committed, have, want)
	}
	all := append(append(shots(empty), shots(full)...), shots(several)...)
	for _, name := range want {
		if !slices.ContainsFunc(all, func(s shot) bool { return s.name() == name }) {
			t.Errorf("no page has the picture %s", name)
		}
	}
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	pictures := regexp.MustCompile(`(?s)!\[([^\]]*)\]\((docs/shots/[^)]+)\)`).FindAllSubmatch(readme, -1)
	if len(pictures) < 2 {
		t.Errorf("README shows %d pictures", len(pictures))
	}
	for _, m := range pictures {
		if len(m[1]) < 60 {
			t.Errorf("%s: %q does not say what the picture shows", m[2], m[1])
		}
	}
}

// TestShrinkKeepsRareColours: among thousands of shades, one red point stays red.
func TestShrinkKeepsRareColours(t *testing.T) {
	picture := image.NewRGBA(image.Rect(0, 0, 128, 128))
	for y := range 128 {
		for x := range 128 {
			picture.SetRGBA(x, y, color.RGBA{byte(x), byte(y), byte(x + y), 255})
		}
	}
	red := color.RGBA{250, 20, 10, 255}
	picture.SetRGBA(64, 64, red)
	var raw bytes.Buffer
	if err := png.Encode(&raw, picture); err != nil {
		t.Fatal(err)
	}
	small, err := shrink(raw.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	got, err := png.Decode(bytes.NewReader(small))
	if err != nil {
		t.Fatal(err)
	}
	if p, ok := got.(*image.Paletted); !ok || len(p.Palette) > 256 || p.At(64, 64) != red {
		t.Errorf("it is %T, and the point is %v", got, got.At(64, 64))
	}
}
