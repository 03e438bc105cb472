package web_test

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"rsc.io/qr"

	"spoolwright/tests/testkit"
)

// The label of a box of pieces leads to the product, and says where the box belongs.
func TestProductLabels(t *testing.T) {
	t.Parallel()
	api := newAPI(t, testkit.Options{})
	tenant := api.Tenant(t)
	c := tenant.User(t, "operator")
	b := signIn(t, c)
	b.get(t, "/products/labels").want(t, 200).shows(t, "There are no products yet.")
	first, second := c.NewProduct(t, "HOOK", 5), c.NewProduct(t, "LAMP", 5)
	c.Patch(t, "/api/v1/products/"+second, j{"location": "Shelf <B2>"}).Want(200)
	page := b.get(t, "/products/labels?size=50x25&id="+second+"&id="+first).want(t, 200).
		shows(t, "P2 Product LAMP LAMP · Shelf <B2> P1 Product HOOK HOOK")
	check(t, page)
	for _, number := range []string{"2", "1"} {
		if !page.drawn(t, b.base+"/p/"+number) {
			t.Error("no code leads to the product " + number)
		}
	}
	check(t, b.get(t, "/products/labels").want(t, 200).shows(t, "Product LAMP LAMP Shelf <B2> 0", "Show the labels"))
	b.get(t, "/products/labels?search=hook").shows(t, "Product HOOK").hides(t, "Product LAMP")
	b.get(t, "/products").shows(t, "Labels", "LAMP · Shelf <B2>")
	b.get(t, "/p/2").to(t, "/products/"+second)
	found := b.get(t, "/search?q="+url.QueryEscape(b.base+"/P/2/")).want(t, 303).header.Get("Location")
	testkit.Equal(t, found, "/p/2", "address for the code")
	signIn(t, tenant.User(t, "viewer")).get(t, "/products/labels?id="+first).want(t, 200)
	other := signIn(t, api.Operator(t))
	other.get(t, "/p/2").want(t, 404)
	other.get(t, "/products/labels?id="+first).want(t, 404)
	for _, path := range []string{"/p/0", "/p/x", "/p/3", "/products/labels?id=x"} {
		b.get(t, path).want(t, 404)
	}
	b.get(t, "/products/labels?id="+strings.Repeat(first+"&id=", 100)+first).want(t, 422).shows(t, "at most 100")
	c.Delete(t, "/api/v1/products/"+second).Want(204)
	b.get(t, "/p/2").want(t, 404)
}

// The QR code of a label leads to the spool.
func TestLabels(t *testing.T) {
	t.Parallel()
	c := newAPI(t, testkit.Options{}).Operator(t)
	b := signIn(t, c)
	first, second := c.NewSpool(t, 500, nil), c.NewSpool(t, 400, j{"color": "Red"})
	page := b.get(t, "/labels?size=5160&id="+second+"&id="+first).want(t, 200).shows(t, "#2 PLA Red", "#1 PLA Black")
	testkit.Contains(t, page.text, `class="labels s5160"`, "the labels have another size")
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

// What is printed for others is in the language of the farm, also for a person with another language.
func TestPrintedLanguage(t *testing.T) {
	t.Parallel()
	api := newAPI(t, testkit.Options{})
	c := api.Tenant(t).User(t, "admin")
	b := signIn(t, c)
	c.Patch(t, "/api/v1/settings", j{"language": "de"}).Want(200)
	c.Patch(t, "/api/v1/auth/me", j{"language": "en"}).Want(200)
	spool, product := c.NewSpool(t, 500, nil), c.NewProduct(t, "HOOK", 5)
	order := c.Post(t, "/api/v1/orders", j{"items": []j{{"product_id": product, "quantity": 1}}}).Want(201).ID()
	for path, want := range map[string]string{"/labels?id=" + spool: "de", "/products/labels?id=" + product: "de",
		"/packing?id=" + order: "de", "/packing": "en", "/orders/" + order: "en"} {
		testkit.Contains(t, b.get(t, path).want(t, 200).text, `<html lang="`+want+`">`,
			"%s is not in %s", path, want)
	}
}
