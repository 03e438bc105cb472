package server_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"testing"
)

// BenchmarkGzipOfList measures the compression of a list of 20 spools, which costs CPU time and saves bytes.
func BenchmarkGzipOfList(b *testing.B) {
	var list bytes.Buffer
	for i := range 20 {
		fmt.Fprintf(&list, `{"id":"01a200ab-%04x-7575-943d-b031f8cce3aa","number":%d,"material_type":"PLA",`+
			`"brand":"Prusament","color":"Color %d","color_hex":null,"finish":null,"diameter_mm":1.75,`+
			`"net_weight_grams":1000,"remaining_weight_grams":%d,"spool_weight_grams":null,"purchase_price":24.99,`+
			`"cost_per_gram":0.02499,"supplier":null,"purchase_date":null,"notes":null,"location":null,"lot_number":null,`+
			`"density_g_cm3":null,"archived":false,"first_used_at":null,"last_used_at":null,`+
			`"created_at":"2026-11-22T00:32:%02d.843173Z","updated_at":"2026-11-22T00:32:32.%06dZ","hidden_at":null},`,
			i*7919, i, i%7, i*37%1000, i, i*7919)
	}
	w, err := gzip.NewWriterLevel(nil, gzip.BestSpeed)
	if err != nil {
		b.Fatal(err)
	}
	var out bytes.Buffer
	for b.Loop() {
		out.Reset()
		w.Reset(&out)
		w.Write(list.Bytes())
		w.Close()
	}
	b.ReportMetric(float64(list.Len()), "bytes")
	b.ReportMetric(float64(out.Len()), "gzip-bytes")
}
