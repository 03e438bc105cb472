-- The last e-mail with a password link for each user. It waits until the mail server has accepted or refused it, or
-- until the service gives up. The link is made when the e-mail is sent, so that no table has its token.
create table link_emails (
	tenant_id uuid,
	user_id uuid not null,
	kind text collate "C" not null check (kind in ('invitation', 'password')),
	requested_at timestamptz not null default now(),
	tries int not null default 0 check (tries >= 0),
	next_try_at timestamptz, -- null when it was sent or refused
	ended_at timestamptz, -- when it was sent or refused
	error text check (length(error) <= 1000), -- of the last try; null if it was sent
	primary key (tenant_id, user_id),
	foreign key (tenant_id, user_id) references users (tenant_id, id)
);
call tenant_table('link_emails', 'select, insert, update, delete');
