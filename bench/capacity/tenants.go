package capacity

import (
	"container/heap"
	"hash/fnv"
	"math"
	"slices"
)

// Tenants are the tenants' rates, the largest first. The nth tenant's part of the whole is
// proportional to 1/n to the power of skew.
func Tenants(n int, rate, skew float64) []float64 {
	all := make([]float64, n)
	sum := 0.0
	for i := range all {
		all[i] = math.Pow(float64(i+1), -skew)
		sum += all[i]
	}
	for i := range all {
		all[i] *= rate / sum
	}
	return all
}

// Place puts each tenant, the largest first, into the cell with the least load, and returns the
// tenants of each cell.
func Place(tenants []float64, cells int) [][]int {
	var least emptiest
	for i := range cells {
		least = append(least, place{cell: i})
	}
	in := make([][]int, cells)
	for i, rate := range tenants {
		in[least[0].cell] = append(in[least[0].cell], i)
		least[0].load += rate
		heap.Fix(&least, 0)
	}
	return in
}

// Hash puts each tenant into the cell that a hash of its name selects.
func Hash(tenants []float64, cells int) [][]int {
	in := make([][]int, cells)
	for i := range tenants {
		h := fnv.New64a()
		_, _ = h.Write([]byte{byte(i), byte(i >> 8), byte(i >> 16), byte(i >> 24)})
		sum := h.Sum64()
		sum = (sum ^ sum>>33) * 0xff51afd7ed558ccd
		cell := int((sum ^ sum>>33) % uint64(cells))
		in[cell] = append(in[cell], i)
	}
	return in
}

// fullest is the cell with the largest load, and that load.
func fullest(tenants []float64, in [][]int) (these []int, load float64) {
	for _, one := range in {
		sum := 0.0
		for _, i := range one {
			sum += tenants[i]
		}
		if sum > load {
			these, load = one, sum
		}
	}
	return these, load
}

type place struct {
	cell int
	load float64
}

// emptiest is a heap of cells.
type emptiest []place

func (e emptiest) Len() int { return len(e) }
func (e emptiest) Less(i, j int) bool {
	return e[i].load < e[j].load || e[i].load == e[j].load && e[i].cell < e[j].cell
}
func (e emptiest) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *emptiest) Push(any)     {}
func (e *emptiest) Pop() any     { return nil }

// endpoints are the tenants' endpoints: for each tenant the number that keeps every endpoint below
// most. One in a hundred of the quiet ones is slow, and one in a hundred of all is down.
func endpoints(tenants []float64, these []int, most float64) []Endpoint {
	var all []Endpoint
	for _, i := range these {
		n := max(1, int(math.Ceil(tenants[i]/most)))
		for j := range n {
			all = append(all, Endpoint{Weight: tenants[i] / float64(n), Limit: 32,
				Slow: tenants[i] < quiet && (i+j)%100 == 17, Down: (i+j)%100 == 71})
		}
	}
	return slices.Clip(all)
}

// quiet is a rate that a slow endpoint sustains: 32 attempts at once of three seconds each are over
// 10/s.
const quiet = 5
