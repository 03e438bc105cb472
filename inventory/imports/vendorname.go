package imports

import (
	"context"
	"encoding/json"
	"slices"

	"spoolwright/db"
	"spoolwright/value"
)

// vendorName is the vendor that a name stands for. Both fields are nil without a name. ID is nil if a dry run would
// create the vendor.
type vendorName struct {
	ID   *string
	Name *string
}

// nameVendors locks the vendors that have the names, without regard to case. It creates missing vendors in the order
// of the names, unless it is a dry run. It returns the vendor of each name, and the ids of the vendors that it created
// or would create.
func nameVendors(
	ctx context.Context, d *db.DB, names []string, dryRun bool,
) (vendors []vendorName, created []string, err error) {
	if len(names) == 0 {
		return nil, nil, nil
	}
	type named struct {
		N    int
		Key  string
		ID   *string
		Name *string
	}
	found := func() (all []named, err error) {
		locked := db.SQL(`
			with named as materialized (
				select n, lower(name collate "und-x-icu") collate "C" as key from unnest($1::text[]) with ordinality w (name, n)
			), found as materialized (
				select v.* from (select distinct key from named order by key) k cross join lateral (
					select id, name, name_key from vendors where name_key = k.key and hidden_at is null for share
				) v
			)
			select n, key, id, found.name from named left join found on name_key = key order by n`, names)
		if err := d.Write(ctx, locked); err != nil {
			return nil, err
		}
		return all, json.Unmarshal(locked.Array(), &all)
	}
	all, err := found()
	if err != nil {
		return nil, nil, err
	}
	var ids, missing []string
	seen := map[string]int{}
	for i, v := range all {
		first, known := seen[v.Key]
		switch {
		case v.ID != nil:
		case known:
			all[i].Name = all[first].Name
		default:
			seen[v.Key], all[i].Name = i, &names[i]
			ids, missing = append(ids, value.NewID()), append(missing, names[i])
		}
	}
	if len(missing) > 0 && !dryRun {
		err = d.Write(ctx, db.SQL(`
			with added as (
				insert into vendors (id, name)
				select id, name from unnest($1::uuid[], $2::text[]) with ordinality v (id, name, n) order by n
				-- Another transaction has created the vendor.
				on conflict (tenant_id, name_key) where hidden_at is null and name_key is not null do nothing
				returning id
			)
			select count_rows('vendors', count(*)) from added`, ids, missing))
		if err == nil {
			all, err = found()
		}
		ids = slices.DeleteFunc(ids, func(id string) bool { // another transaction has created the vendor
			return !slices.ContainsFunc(all, func(v named) bool { return v.ID != nil && *v.ID == id })
		})
	}
	for _, v := range all {
		vendors = append(vendors, vendorName{v.ID, v.Name})
	}
	return vendors, ids, err
}
