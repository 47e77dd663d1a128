package memory

import (
	"iter"
	"slices"
	"sort"
)

// blockSize is how many deliveries a block holds before it is cut in two.
const blockSize = 512

// find returns where d is, or where it belongs.
func (o *order) find(d *delivery) (block, place int) {
	block = sort.Search(len(o.blocks), func(i int) bool {
		b := o.blocks[i]
		return !o.before(b[len(b)-1], d)
	})
	if block == len(o.blocks) {
		return block, 0
	}
	b := o.blocks[block]
	return block, sort.Search(len(b), func(i int) bool { return !o.before(b[i], d) })
}

func (o *order) add(d *delivery) {
	o.size++
	block, place := o.find(d)
	switch {
	case len(o.blocks) == 0:
		o.blocks = [][]*delivery{{d}}
		return
	case block == len(o.blocks): // after all others
		block--
		place = len(o.blocks[block])
	}
	b := slices.Insert(o.blocks[block], place, d)
	o.blocks[block] = b
	if len(b) > blockSize {
		half := len(b) / 2
		o.blocks[block] = b[:half:half]
		o.blocks = slices.Insert(o.blocks, block+1, slices.Clone(b[half:]))
	}
}

func (o *order) take(d *delivery) {
	block, place := o.find(d)
	o.size--
	o.blocks[block] = slices.Delete(o.blocks[block], place, place+1)
	if len(o.blocks[block]) == 0 {
		o.blocks = slices.Delete(o.blocks, block, block+1)
	}
}

// first returns the first delivery, or nil.
func (o *order) first() *delivery {
	if len(o.blocks) == 0 {
		return nil
	}
	return o.blocks[0][0]
}

// all goes through the deliveries in order. The set must not change meanwhile.
func (o *order) all() iter.Seq[*delivery] {
	return func(yield func(*delivery) bool) {
		for _, b := range o.blocks {
			for _, d := range b {
				if !yield(d) {
					return
				}
			}
		}
	}
}
