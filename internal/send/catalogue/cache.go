package catalogue

import "sync"

// Cache keeps compiled schemas. A version's schema never changes, so they are kept by the id of
// their event type and the number of the version, whatever else changes. When they take more memory
// than the cache may, the tenant that takes the most loses those that it has used least recently: a
// tenant with many schemas evicts its own.
type Cache struct {
	bytes int64

	mu      sync.Mutex
	all     map[version]*cached
	tenants map[string]int64 // bytes
	used    int64            // counts uses
	taken   int64            // bytes
}

type version struct {
	id     string
	number int
}

type cached struct {
	schema *Schema
	tenant string
	used   int64
}

// NewCache makes a cache of at most about this many bytes.
func NewCache(bytes int64) *Cache {
	return &Cache{bytes: bytes, all: map[version]*cached{}, tenants: map[string]int64{}}
}

// Get returns a schema that is kept, or nil.
func (c *Cache) Get(id string, number int) *Schema {
	c.mu.Lock()
	defer c.mu.Unlock()
	is := c.all[version{id, number}]
	if is == nil {
		return nil
	}
	c.used++
	is.used = c.used
	return is.schema
}

// Put keeps a schema.
func (c *Cache) Put(tenant, id string, number int, s *Schema) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(version{id, number})
	c.used++
	c.all[version{id, number}] = &cached{s, tenant, c.used}
	c.tenants[tenant] += s.size
	c.taken += s.size
	for c.taken > c.bytes {
		c.drop(c.least(c.largest()))
	}
}

func (c *Cache) largest() (tenant string) {
	for name, bytes := range c.tenants {
		if most := c.tenants[tenant]; bytes > most || bytes == most && name < tenant {
			tenant = name
		}
	}
	return tenant
}

// least is what a tenant has used least recently.
func (c *Cache) least(tenant string) (at version) {
	var oldest *cached
	for v, is := range c.all {
		if is.tenant == tenant && (oldest == nil || is.used < oldest.used) {
			at, oldest = v, is
		}
	}
	return at
}

func (c *Cache) drop(at version) {
	is := c.all[at]
	if is == nil {
		return
	}
	delete(c.all, at)
	c.taken -= is.schema.size
	if c.tenants[is.tenant] -= is.schema.size; c.tenants[is.tenant] == 0 {
		delete(c.tenants, is.tenant)
	}
}
