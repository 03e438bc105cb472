package web

import (
	"fmt"
	"strings"

	"rsc.io/qr"

	"spoolwright/server"
	"spoolwright/value"
)

// labelSizes are the sheets and rolls of labels. The style sheet has their measures, under the same names.
var labelSizes = []option{{"62x29", "Roll, 62 × 29 mm"}, {"50x25", "Roll, 50 × 25 mm"},
	{"40x30", "Roll, 40 × 30 mm"}, {"a4", "A4, 3 × 8 labels"}, {"5160", "Letter, Avery 5160"}}

// maxLabels is the maximum number of labels that are printed together.
const maxLabels = 100

// labelsPage is the page with labels to print.
type labelsPage struct {
	Size   pick
	IDs    []string
	Labels []labelOf
}

// labelOf is the label of a spool.
type labelOf struct {
	Spool spool
	QR    qrCode
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

// showLabels shows the labels of spools. The address names the spools by their ids, or by a range of numbers.
func showLabels(v *visit) error {
	query := v.r.URL.Query()
	p := &labelsPage{Size: pick{"size", "Size", "62x29", labelSizes}}
	for _, size := range labelSizes {
		if size.Value == query.Get("size") {
			p.Size.Value = size.Value
		}
	}
	for _, asked := range query["id"] {
		id, ok := value.ParseID(asked)
		if !ok {
			return server.ErrNotFound
		}
		p.IDs = append(p.IDs, id)
	}
	if len(p.IDs) > maxLabels {
		return server.Invalid("id", "must be given at most %d times", maxLabels)
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
	p.Labels = make([]labelOf, len(paths))
	reads := make([]read, len(paths))
	for i, path := range paths {
		reads[i] = get(path, &p.Labels[i].Spool)
	}
	if err := v.fetch(reads...); err != nil {
		return err
	}
	for i := range p.Labels {
		l := &p.Labels[i]
		if len(p.IDs) <= i {
			p.IDs = append(p.IDs, l.Spool.ID)
		}
		var err error
		if l.QR, err = newQR(fmt.Sprintf("%s/s/%d", v.Address(), l.Spool.Number)); err != nil {
			return err
		}
	}
	return v.show(200, "labels", "Labels", p)
}
