package relay

import "time"

// Bounds are the sizes and time limits inside this package; see package bounds.
type Bounds struct {
	Rows  int   `bound:"500"`            // events that one look reads and one commit takes
	Bytes int64 `bound:"4MiB" tiny:"64"` // of their data, beyond the first

	// Messages that a broker delivers before they are acknowledged, and bytes of them: beyond, the
	// connection ends, and the next one gets half as many messages.
	Messages int   `bound:"256" tiny:"3"`
	Received int64 `bound:"16MiB" tiny:"64KiB"`
	Hops     int   `bound:"8" tiny:"8"` // servers like this one that a message may have passed

	// Events that are set aside cost a tenant AsideCost, and as much for each 64 KiB. Beyond a burst
	// they are set aside as fast as time pays for them.
	AsideCost    time.Duration `bound:"10ms" tiny:"1ms"`
	AsideBurst   time.Duration `bound:"10s" tiny:"10ms"`
	AsideTenants int           `bound:"1024" tiny:"2"` // records of tenants before those without debt are deleted

	// With nothing to carry, a courier naps while the last event is recent: a NOTIFY for each of
	// two hundred events in a second would cost the producer more than fifty looks. Then it sleeps
	// until it is woken or Asleep has passed.
	Nap     time.Duration `bound:"20ms"  tiny:"1ms"`
	Lately  time.Duration `bound:"1s"    tiny:"5ms"`
	Asleep  time.Duration `bound:"500ms" tiny:"20ms"`
	Glance  time.Duration `bound:"100ms" tiny:"5ms"`  // until the next look, where no producer can wake it
	StandBy time.Duration `bound:"1s"    tiny:"20ms"` // while another courier works on the same outbox

	// A pause after failures is a random part of a time that doubles from First up to Longest.
	First   time.Duration `bound:"100ms" tiny:"1ms"`
	Longest time.Duration `bound:"10s"   tiny:"50ms"`
	Refused time.Duration `bound:"30s"   tiny:"50ms"` // the longest pause that the engine can ask for

	// period for which producers are asked to wake a sleeping courier
	Ask   time.Duration `bound:"30s" tiny:"200ms"`
	Again time.Duration `bound:"15s" tiny:"100ms"` // left of that when they are asked again
	// until a look starts from the first number again
	Whole time.Duration `bound:"1m" tiny:"50ms"`
	// for one call, after which the connection counts as broken
	Call time.Duration `bound:"30s"`
	// until a new source has a courier; sources are in memory, so looking is cheap
	Sweep time.Duration `bound:"500ms" tiny:"20ms"`
}
