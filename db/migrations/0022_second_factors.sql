-- Second factors: a code of an app (RFC 6238), or a recovery code, beside the password.

-- Which users must have one. A user who must and has none can only set it up.
alter table tenants add column second_factor text collate "C" not null default 'optional'
	check (second_factor in ('optional', 'admins', 'all'));
grant update (second_factor) on tenants to spoolwright_app;

alter table users
	add column otp_at timestamptz, -- since when a login needs a code; null if it needs none
	add column otp_missing boolean not null default false; -- whether the user must set it up first
comment on column users.otp_missing is 'computed';

create table user_otps (
	tenant_id uuid,
	user_id uuid not null,
	id uuid not null, -- the encrypted secret and the hashes belong to it; it stays when the user moves to another tenant
	secret bytea not null check (length(secret) <= 200), -- encrypted
	created_at timestamptz not null,
	last_step bigint not null default 0, -- the step of the last code that was used: the number of 30 seconds since 1970
	recovery_hashes bytea[] not null default '{}' check (cardinality(recovery_hashes) <= 10), -- SHA-256 of unused codes
	-- Wrong codes from addresses that are not known, since a time.
	wrong_codes int not null default 0 check (wrong_codes >= 0),
	wrong_since timestamptz,
	primary key (tenant_id, user_id),
	foreign key (tenant_id, user_id) references users (tenant_id, id)
);
call tenant_table('user_otps', 'select, insert, update, delete');

-- Wrong codes from the known address, since a time.
alter table login_addresses
	add column wrong_codes int not null default 0 check (wrong_codes >= 0),
	add column wrong_since timestamptz;
