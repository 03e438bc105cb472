package production_test

import (
	"strings"
	"testing"
)

// An export has the values that the API returns. In CSV, a run has a row for each item and each material.
func TestExport(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	c := api.Operator(t)
	api.Operator(t).Post(t, runs, j{}).Want(201)
	plain := c.Post(t, runs, j{"printer_name": "MK4, left", "notes": "two\nlines"}).Want(201).ID()
	full := c.Post(t, runs, j{"status": "in_progress", "started_at": "2024-01-15T10:00:00Z",
		"completed_at": "2024-01-15T14:30:00.5Z", "estimated_print_time_hours": 4,
		"estimated_total_filament_grams": 150}).Want(201).ID()
	product := c.Post(t, "/api/v1/products", j{"name": "Lamp"}).Want(201).ID()
	c.Post(t, runs+"/"+full+"/items", j{"product_id": product, "quantity": 3, "estimated_total_cost": 1.5}).Want(201)
	for range 2 {
		c.Post(t, runs+"/"+full+"/materials", j{"spool_id": createSpool(t, c, nil), "spool_weight_before_grams": 1000,
			"spool_weight_after_grams": 922.5}).Want(201)
	}
	c.Post(t, runs+"/"+full+"/complete", nil).Want(200)

	c.WantExported(t, runs, nil, plain, full)
	rows := c.Exported(t, runs, "csv")
	if len(rows) != 6 { // one row has a line break
		t.Fatalf("%d rows: %q", len(rows), rows)
	}
	if !strings.HasPrefix(rows[0], "id,status,printer_id,printer_name,") ||
		!strings.HasSuffix(rows[0], ",materials.cost_per_gram,materials.reported_grams,materials.outside_grams,"+
			"materials.actual_reported,materials.exchanged_at,materials.weighed_at,variance_analysis.material_variance_grams,"+
			"variance_analysis.material_variance_percent,variance_analysis.time_variance_hours,"+
			"variance_analysis.time_variance_percent,likely_completed_at,usage_source") {
		t.Errorf("the header is %s", rows[0])
	}
	for i, want := range []string{plain + `,pending,,"MK4, left",,`, "lines\"", full + ",completed,", full +
		",completed,", full + ",completed,"} {
		if !strings.HasPrefix(rows[i+1], want) {
			t.Errorf("row %d is %s, want %s", i+1, rows[i+1], want)
		}
	}
	for i, want := range []string{"," + product + ",Lamp,,false,3,,,,0,1.5,",
		",PLA Black (Polymaker),,77.5,1000,922.5,,,0.025,", ",PLA Black (Polymaker),,77.5,1000,922.5,,,0.025,"} {
		if !strings.Contains(rows[i+3], want) || !strings.HasSuffix(rows[i+3], ",5,3.3,0.500139,12.5,,") {
			t.Errorf("row %d is %s, without %s", i+3, rows[i+3], want)
		}
	}
}
