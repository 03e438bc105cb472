package web

import (
	"fmt"
	"html/template"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"rsc.io/qr"

	"spoolwright/server"
	"spoolwright/value"
	"spoolwright/value/language"
)

// labelSizes are the sheets and rolls of labels. The style sheet has their measures, under the same names.
var labelSizes = []word{{"62x29", "Roll, 62 × 29 mm"}, {"50x25", "Roll, 50 × 25 mm"},
	{"40x30", "Roll, 40 × 30 mm"}, {"a4", "A4, 3 × 8 labels"}, {"5160", "Letter, Avery 5160"}}

// maxLabels is the maximum number of labels that are printed together.
const maxLabels = 100

// labelsPage is the page with labels to print, of spools or of the boxes of products.
type labelsPage struct {
	Size   pick
	IDs    []string
	Labels []labelOf

	// Of products. Offered is the list of products to choose from, if the address names none.
	Products bool
	Offered  struct {
		Items []product
		Total int
	}
	Search string
}

type labelOf struct {
	Number    int
	Sign      string // before the number
	What, Who string
	Of        string // the text of the code for people who do not see it
	Swatch    template.HTML
	QR        qrCode
}

// qrCode is a QR code as a picture: a path of lines as wide as a module, in a square with a margin.
type qrCode struct {
	Path string
	Size int
}

// newQR returns the QR code of a text of less than 1,000 bytes.
func newQR(text string) (qrCode, error) {
	code, err := qr.Encode(text, qr.M)
	if err != nil {
		return qrCode{}, err
	}
	const margin = 4 // modules, as the standard demands
	var path strings.Builder
	for y := range code.Size {
		fmt.Fprintf(&path, "M%d %d.5", margin, y+margin)
		for x := 0; x < code.Size; {
			end := x
			for end < code.Size && code.Black(end, y) == code.Black(x, y) {
				end++
			}
			if code.Black(x, y) {
				fmt.Fprintf(&path, "h%d", end-x)
			} else if end < code.Size {
				fmt.Fprintf(&path, "m%d 0", end-x)
			}
			x = end
		}
	}
	return qrCode{path.String(), code.Size + 2*margin}, nil
}

// forFarm returns the visit with the language of the farm, if it has one: for pages that are printed for other people.
func (v *visit) forFarm() *visit {
	own := language.Of(v.FarmLanguage)
	if own == nil {
		return v
	}
	printed := *v
	printed.language = own
	return &printed
}

// newLabelsPage returns the page for the labels with the size and the ids in the address.
func (v *visit) newLabelsPage() (*labelsPage, error) {
	query := v.r.URL.Query()
	p := &labelsPage{Size: pick{"size", v.t("Size"), "62x29", v.options(labelSizes)}}
	for _, size := range labelSizes {
		if size.Value == query.Get("size") {
			p.Size.Value = size.Value
		}
	}
	for _, asked := range query["id"] {
		id, ok := value.ParseID(asked)
		if !ok {
			return nil, server.ErrNotFound
		}
		p.IDs = append(p.IDs, id)
	}
	if len(p.IDs) > maxLabels {
		return nil, server.Invalid("id", "must be given at most %d times", maxLabels)
	}
	return p, nil
}

// showProductLabels shows the labels of boxes with pieces of the products that the address names by their ids, or
// offers products.
func showProductLabels(v *visit) error {
	v = v.forFarm()
	p, err := v.newLabelsPage()
	if err != nil {
		return err
	}
	p.Products = true
	// Unlike a single product, a list does not compute reserved pieces.
	all := make([]struct{ Items []product }, len(p.IDs))
	var reads []read
	for i, id := range p.IDs {
		reads = append(reads, get("/api/v1/products?limit=1&id="+id, &all[i]))
	}
	if len(reads) == 0 {
		p.Search = strings.TrimSpace(v.r.URL.Query().Get("search"))
		query := url.Values{"limit": {strconv.Itoa(maxLabels)}}
		if p.Search != "" {
			query.Set("search", p.Search)
		}
		reads = []read{{path: "/api/v1/products", into: &p.Offered, query: query}}
	}
	if err := v.fetch(reads...); err != nil {
		return err
	}
	for _, found := range all {
		if len(found.Items) == 0 {
			return server.ErrNotFound
		}
		of := found.Items[0]
		code, err := newQR(fmt.Sprintf("%s/p/%d", v.Address(), of.Number))
		if err != nil {
			return err
		}
		p.Labels = append(p.Labels, labelOf{Number: of.Number, Sign: "P", What: of.Name,
			Who: join(" · ", of.SKU, of.Location), Of: v.t("QR code of product %s", strconv.Itoa(of.Number)), QR: code})
	}
	return v.show(200, "labels", v.t("Labels of products"), p)
}

// join joins the texts that are not empty.
func join(separator string, texts ...string) string {
	return strings.Join(slices.DeleteFunc(texts, func(text string) bool { return text == "" }), separator)
}

// productByNumber answers the address on the label of a product. It redirects to the page of the product with the
// number.
func productByNumber(v *visit) error {
	var p product
	number := v.r.PathValue("number")
	if !isNumber(number) {
		return server.ErrNotFound
	}
	if err := v.fetch(get("/api/v1/products/by-number/"+number, &p)); err != nil {
		return err
	}
	return v.redirect("/products/" + p.ID)
}

// showLabels shows the labels of spools. The address names the spools by their ids, or by a range of numbers.
func showLabels(v *visit) error {
	v = v.forFarm()
	query := v.r.URL.Query()
	p, err := v.newLabelsPage()
	if err != nil {
		return err
	}
	var paths []string
	for _, id := range p.IDs {
		paths = append(paths, "/api/v1/spools/"+id)
	}
	if asked := query.Get("numbers"); asked != "" {
		numbers, ok := numberRange(asked, maxLabels)
		if !ok {
			return server.Invalid("numbers", "must be a range of at most %d numbers, such as 61-70", maxLabels)
		}
		p.IDs, paths = nil, nil
		for _, n := range numbers {
			paths = append(paths, fmt.Sprintf("/api/v1/spools/by-number/%d", n))
		}
	}
	all := make([]spool, len(paths))
	reads := make([]read, len(paths))
	for i, path := range paths {
		reads[i] = get(path, &all[i])
	}
	if err := v.fetch(reads...); err != nil {
		return err
	}
	for i := range all {
		of := &all[i]
		if len(p.IDs) <= i {
			p.IDs = append(p.IDs, of.ID)
		}
		code, err := newQR(fmt.Sprintf("%s/s/%d", v.Address(), of.Number))
		if err != nil {
			return err
		}
		p.Labels = append(p.Labels, labelOf{Number: int(of.Number), Sign: "#", What: of.Name(), Who: of.Maker(),
			Of: v.t("QR code of spool %s", strconv.FormatInt(of.Number, 10)), Swatch: of.Swatch(), QR: code})
	}
	return v.show(200, "labels", v.t("Labels"), p)
}
