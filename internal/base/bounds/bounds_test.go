package bounds

import (
	"slices"
	"testing"
	"time"
)

type inner struct {
	Page  int           `bound:"512"`
	Names int           `bound:"65536" least:"3"`
	Cache int64         `bound:"32MiB" tiny:"4KiB"`
	Pause time.Duration `bound:"10s" tiny:"50ms"`
	Wait  time.Duration `bound:"1m"`
}

type outer struct{ First, Second inner }

func TestFill(t *testing.T) {
	got := Fill(outer{First: inner{Page: 7}})
	full := inner{512, 65536, 32 << 20, 10 * time.Second, time.Minute}
	first := full
	first.Page = 7
	if got != (outer{first, full}) {
		t.Fatalf("got %+v", got)
	}
}

func TestTiny(t *testing.T) {
	pages, names := map[int]bool{}, map[int]bool{}
	for seed := range uint64(200) {
		b := Tiny[outer](seed)
		pages[b.First.Page], names[b.Second.Names] = true, true
		if b.First.Cache != 4<<10 || b.Second.Pause != 50*time.Millisecond || b.First.Wait != 0 {
			t.Fatalf("seed %d: %+v", seed, b)
		}
		if b != Tiny[outer](seed) {
			t.Fatalf("seed %d gives different bounds", seed)
		}
	}
	for n := 1; n <= 8; n++ {
		if !pages[n] || names[n] != (n >= 3) {
			t.Errorf("%d: page %v, names %v", n, pages[n], names[n])
		}
	}
	if len(pages) != 8 || len(names) != 6 {
		t.Errorf("pages %v, names %v", pages, names)
	}
}

func TestParse(t *testing.T) {
	var h outer
	if err := Parse("tiny:7,first.page=100,second.cache=2MiB,second.pause=3ms", &h); err != nil {
		t.Fatal(err)
	}
	want := Tiny[outer](7)
	want.First.Page, want.Second.Cache, want.Second.Pause = 100, 2<<20, 3*time.Millisecond
	if h != want {
		t.Fatalf("got %+v, want %+v", h, want)
	}
	for text, says := range map[string]string{
		"first.pages=1":  "first.pages: unknown bound",
		"first.page":     `"first.page": takes NAME=VALUE, or tiny:SEED`,
		"first.page=x":   `first.page: "x" is not a number such as 512 or 32MiB`,
		"first.pause=5":  `first.pause: "5" is not a duration such as 250ms`,
		"second.names=2": "second.names: 2 is below its least, 3",
		"first.page=0":   "first.page: 0 is below its least, 1",
		"tiny:one":       `"tiny:one": tiny: takes a number, the seed`,
	} {
		if err := Parse(text, &h); err == nil || err.Error() != says {
			t.Errorf("%s: %v", text, err)
		}
	}
	if h != want {
		t.Error("a text that was refused has changed a bound")
	}
	if list := List(h); !slices.Contains(list, "first.page=100") || !slices.Contains(list, "second.pause=3ms") {
		t.Error(list)
	}
}
