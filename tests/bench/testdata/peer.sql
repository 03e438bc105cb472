-- The tables of peer.py.
create table api_keys (
	id uuid primary key default gen_random_uuid(),
	tenant_id uuid not null,
	hash bytea not null unique,
	expires_at timestamptz not null default 'infinity',
	revoked_at timestamptz
);
create table spools (
	id uuid primary key default gen_random_uuid(),
	tenant_id uuid not null,
	material_type text not null,
	brand text,
	color text not null,
	color_hex text,
	finish text,
	diameter_mm numeric(5, 3) not null,
	net_weight_grams numeric(15, 6) not null check (net_weight_grams > 0),
	remaining_weight_grams numeric(15, 6) not null check (remaining_weight_grams >= 0),
	spool_weight_grams numeric(15, 6),
	purchase_price numeric(15, 6),
	cost_per_gram numeric(15, 6) generated always as (purchase_price / net_weight_grams) stored,
	supplier text,
	purchase_date date,
	notes text,
	created_at timestamptz not null default now(),
	updated_at timestamptz not null default now()
);
create index on spools (tenant_id, created_at desc, id desc);
create table spool_usage (
	id bigint generated always as identity primary key,
	tenant_id uuid not null,
	spool_id uuid not null references spools,
	api_key_id uuid not null references api_keys,
	kind text not null,
	before_grams numeric(15, 6) not null,
	after_grams numeric(15, 6) not null,
	reason text,
	created_at timestamptz not null default now()
);
create index on spool_usage (tenant_id, spool_id, created_at);
