-- The first steps of a new farm, and its sample data.

create table first_steps (
	tenant_id uuid,
	hidden_at timestamptz, -- when an admin hid the steps
	samples_at timestamptz, -- when the farm was filled with sample data; null if it has none
	primary key (tenant_id)
);
call tenant_table('first_steps', 'select, insert, update');

-- The ids of the rows that are sample data: of vendors, filaments, spools, stock levels, printers, products, orders and
-- runs. What belongs to such a row is sample data, too. Only rows with these ids, and what belongs to them, can be
-- deleted with delete_samples.
create table sample_rows (
	tenant_id uuid,
	id uuid not null,
	primary key (tenant_id, id)
);
call tenant_table('sample_rows', 'select, insert, delete');
