package sqlite3

// Gathered returns how many bytes are not written to the log yet.
func (c *Conn) Gathered() int { return int(c.gathered.length) }
