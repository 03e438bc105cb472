package catalog_test

import (
	"sync"
	"testing"

	"spoolwright/auth/authtest"
)

// together runs n requests at the same time.
func together(t *testing.T, n int, send func(i int) (*authtest.Answer, error)) []*authtest.Answer {
	t.Helper()
	answers := make([]*authtest.Answer, n)
	errs := make([]error, n)
	var all sync.WaitGroup
	gate := make(chan struct{})
	for i := range n {
		all.Go(func() {
			<-gate
			answers[i], errs[i] = send(i)
		})
	}
	close(gate)
	all.Wait()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
	return answers
}

func statuses(answers []*authtest.Answer) map[int]int {
	count := map[int]int{}
	for _, a := range answers {
		count[a.Status]++
	}
	return count
}
