package shops

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"spoolwright/transfer"
)

// No file makes the import panic, and whatever it reads fits into the columns of orders.
func FuzzFile(f *testing.F) {
	const shopify = "Name,Financial Status,Fulfillment Status,Created at,Lineitem quantity,Lineitem name," +
		"Lineitem price,Lineitem sku,Billing Name,Notes,Cancelled at,Id,Lineitem discount\n"
	for _, file := range []string{
		"", "Order,Item\n1,Vase\n",
		shopify + "#1,paid,,2026-01-05 10:00:00 +0100,2,\"Dragon\n, \"\"red\"\"\",1.50,DRG,Ada,note,,55,0.10\n" +
			"#1,,,,1,Vase,3,,,,,,\n",
		"Order ID,Transaction ID,Item Name,Quantity,Price,Discount Amount,Date Shipped,Ship Name,Variations,SKU\n" +
			"1,71,Dragon &amp; co,2,\"1,50\",0.1,01/05/26,Ada,Color:Red,x\n1,71,Dragon,0,1,,,,,\n",
		"order_id;order_number;status;item_id;item_name;item_sku;item_quantity;item_total;item_refunded_qty\n" +
			"1;A;wc-pending;5;Vase;v;3;30,00;9\n1;A;cancelled;6;Vase;v;1;;\n",
		"sep=;\nBestellnummer;Artikel;Menge;Einzelpreis;Liefertermin;Status\nD-1;Vase;2;1.023,49 €;05.02.2026;versendet\n",
		"\xff\xfeO\x00r\x00d\x00e\x00r\x00,\x00I\x00t\x00e\x00m\x00\n\x001\x00,\x00V\x00\n\x00",
	} {
		f.Add([]byte(file))
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		if len(file) > 1<<20 {
			return
		}
		sheet, err := transfer.ReadSheet(file, "", math.MaxInt, goodTitles)
		if err != nil {
			return
		}
		how := transfer.Reading{Mode: transfer.Create, Currency: func() (string, error) { return "EUR", nil }}
		for _, row := range sheet.Rows[:min(len(sheet.Rows), maxTitleRows)] {
			titles := transfer.Texts(row.Cells)
			isEtsyOrders(titles)
			if p, fields := programOf(titles); p != nil {
				how.Program = &transfer.Program{Name: p.name, Fields: fields, Dates: p.dates,
					Defaults: map[string]string{"source": p.name}}
				break
			}
		}
		how.Suggest = len(file)%2 == 0
		c, err := convertFile(sheet, how)
		if err != nil || c.Table.Header == 0 {
			return
		}
		read, err := readFile(c.Table, how, maxFileRows)
		if err != nil {
			return
		}
		for _, o := range read.orders {
			fits := func(what, text string, most int) {
				if utf8.RuneCountInString(text) > most || !utf8.ValidString(text) || strings.Contains(text, "\x00") {
					t.Errorf("%s is %q", what, text)
				}
			}
			var s merged
			s.mergeFile(o)
			if _, err := json.Marshal(s); err != nil {
				t.Error(err)
			}
			fits("the source", o.source, 200)
			in := s.incoming(o.source)
			if in == nil {
				continue
			}
			fits("the reference", in.Reference, 200)
			fits("the customer", in.Customer, 200)
			fits("the notes", in.Notes, 10_000)
			keys := map[string]bool{}
			for _, l := range in.Lines {
				fits("the key", l.Key, 200)
				fits("the title", l.Title, 1000)
				fits("the SKU", l.SKU, 200)
				if l.Title == "" || l.Quantity < 0 || l.Quantity > 1_000_000 || keys[l.Key] {
					t.Errorf("the line is %+v", l)
				}
				keys[l.Key] = true
			}
			if in.Reference == "" || len(in.Lines) == 0 || len(in.Lines) > maxLines {
				t.Errorf("the order is %+v", in)
			}
		}
	})
}
