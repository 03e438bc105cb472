package db

import "context"

// Analyze makes PostgreSQL analyze the tables that have grown by half since they were last analyzed, so that plans fit
// the size of the tables. The service calls Analyze every 15 seconds: autovacuum, by default, takes up to a minute to
// notice that a table has grown.
func (d *DB) Analyze(ctx context.Context) error {
	for range 100 { // there are fewer tables
		var table *string
		if _, err := d.directory(ctx, `select analyze_grown()`, nil, &table); err != nil || table == nil {
			return err
		}
	}
	return nil
}
