package catalogue

import (
	"fmt"
	"testing"
)

// TestCacheEvictsTheLargestTenantsOwn: a tenant that uses thousands of schemas takes no place from
// one that uses a few.
func TestCacheEvictsTheLargestTenantsOwn(t *testing.T) {
	s := compiled(t, `{"type":"object"}`)
	c := NewCache(10 * s.size)
	c.Put("small", "typ_small", 1, s)
	for i := range 1000 {
		c.Put("large", fmt.Sprint("typ_", i), 1, s)
		c.Get("typ_0", 1)
	}
	if c.Get("typ_small", 1) == nil || c.Get("typ_0", 1) == nil || c.Get("typ_999", 1) == nil {
		t.Error("a schema that is used was evicted")
	}
	if c.Get("typ_500", 1) != nil || c.Get("typ_small", 2) != nil || len(c.all) != 10 || c.taken != 10*s.size {
		t.Errorf("%d schemas take %d bytes", len(c.all), c.taken)
	}
	tiny := NewCache(1)
	tiny.Put("a", "typ_1", 1, s)
	if tiny.Get("typ_1", 1) != nil || tiny.taken != 0 || len(tiny.tenants) != 0 {
		t.Error("a schema that is larger than the cache is kept")
	}
}
