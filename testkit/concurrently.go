package testkit

import "sync"

// Concurrently calls do with 0, 1, ..., n-1, each on a goroutine of its own, and waits for all calls.
func Concurrently(n int, do func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { do(i) })
	}
	all.Wait()
}
