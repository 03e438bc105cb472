package web_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"rsc.io/qr"

	"spoolwright/testkit"
)

// The QR code of a label leads to the spool.
func TestLabels(t *testing.T) {
	t.Parallel()
	c := newAPI(t, testkit.Options{}).Operator(t)
	b := signIn(t, c)
	first, second := c.NewSpool(t, 500, nil), c.NewSpool(t, 400, j{"color": "Red"})
	page := b.get(t, "/labels?size=5160&id="+second+"&id="+first).want(t, 200).shows(t, "#2 PLA Red", "#1 PLA Black")
	if !strings.Contains(page.text, `class="labels s5160"`) {
		t.Error("the labels have another size")
	}
	paths := regexp.MustCompile(`<path d="(M[^"]+)" stroke`).FindAllStringSubmatch(page.text, -1)
	if len(paths) != 2 {
		t.Fatalf("%d codes", len(paths))
	}
	for i, number := range []int{2, 1} {
		code, err := qr.Encode(fmt.Sprintf("%s/s/%d", b.base, number), qr.M)
		testkit.Check(t, err)
		black := map[[2]int]bool{}
		for _, row := range strings.Split(paths[i][1], "M")[1:] {
			var x, y int
			fmt.Sscanf(row, "%d %d.5", &x, &y)
			for _, step := range regexp.MustCompile(`[hm]\d+`).FindAllString(row, -1) {
				var n int
				fmt.Sscanf(step[1:], "%d", &n)
				for range n {
					black[[2]int{x - 4, y - 4}] = step[0] == 'h'
					x++
				}
			}
		}
		for y := range code.Size {
			for x := range code.Size {
				if black[[2]int{x, y}] != code.Black(x, y) {
					t.Fatalf("label %d differs from the code at %d, %d", number, x, y)
				}
			}
		}
	}
	b.get(t, "/labels").want(t, 200).shows(t, "Choose spools in the list")
	b.get(t, "/labels?id=x").want(t, 404)
	b.get(t, "/labels?id="+strings.Repeat(first+"&id=", 100)+first).want(t, 422).shows(t, "at most 100")
}
