package web_test

import (
	"testing"

	"spoolwright/tests/testkit"
)

// What a page shows can be typed into its search, and into that of all pages.
func TestSearchWhatIsShown(t *testing.T) {
	t.Parallel()
	c := newAPI(t, testkit.Options{}).Operator(t)
	b := signIn(t, c)
	c.Post(t, "/api/v1/spools/batch", j{"quantity": 69, "material_type": "PETG", "color": "White", "diameter_mm": 1.75,
		"net_weight_grams": 1000}).Want(201)
	spool := c.NewSpool(t, 400, j{"material_type": "PLA", "brand": "Acme", "color": "Galaxy Black",
		"location": "Shelf A"})
	product := c.Post(t, "/api/v1/products", j{"name": "Gear Box"}).Want(201).ID()
	c.Post(t, "/api/v1/orders", j{"reference": "#70", "customer": "Ada",
		"items": []j{{"product_id": product, "quantity": 1}}}).Want(201)
	c.Post(t, "/api/v1/printers", j{"name": "Voron"}).Want(201)
	c.Post(t, "/api/v1/vendors", j{"name": "Polymaker"}).Want(201)
	c.Post(t, "/api/v1/production-runs", j{"printer_name": "Voron", "notes": "night"}).Want(201)
	for _, words := range []string{"PLA+Galaxy+Black", "Acme+Galaxy", "70", "%2370", "Shelf+A",
		"pla+galaxy+black+(acme)"} {
		b.get(t, "/spools?search="+words).want(t, 200).shows(t, "PLA Galaxy Black", "1 spool")
		if words != "%2370" {
			b.get(t, "/search?q="+words).want(t, 200).shows(t, "PLA Galaxy Black")
		}
	}
	b.get(t, "/search?q=%2370").to(t, "/spools/"+spool)
	b.get(t, "/search?q=%23701").want(t, 200).shows(t, "Nothing was found")
	b.get(t, "/search?q=70").want(t, 200).shows(t, "Orders Ada #70")
	b.get(t, "/search?q=voron").want(t, 200).shows(t, "Printers Voron", "Runs Voron")
	b.get(t, "/search?q=poly").want(t, 200).shows(t, "Vendors Polymaker")
	b.get(t, "/orders?search=gear+ada").want(t, 200).shows(t, "#70")
	b.get(t, "/search?q=a+b+c+d+e+f+g+h+i+j+k").want(t, 422).shows(t, "at most 10 words")
}
