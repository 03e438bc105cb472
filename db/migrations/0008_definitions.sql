-- The SQL functions that are installed, one row for each db.Definition.
create table schema_definitions (
	name text primary key,
	version int not null check (version > 0),
	sha256 text not null, -- of the definition's SQL, in hexadecimal digits
	applied_at timestamptz not null default now()
);
grant select on schema_definitions to public;
