-- What the columns of a farm's last file of each kind were, for the next one.

create table import_columns (
	tenant_id uuid,
	resources text collate "C" not null check (length(resources) <= 50), -- such as spools
	mapping text collate "C" not null check (length(mapping) <= 100000), -- JSON: fields by titles; "" is left out
	primary key (tenant_id, resources),
	foreign key (tenant_id) references tenants (tenant_id)
);
call tenant_table('import_columns', 'select, insert, update');
