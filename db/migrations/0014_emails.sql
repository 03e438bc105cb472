-- E-mails of webhooks. The url of a webhook of the format email is mailto: and an address. With daily, the events of a
-- day go into one e-mail.
alter table webhooks drop constraint webhooks_format_check;
alter table webhooks add constraint webhooks_format_check
	check (format in ('standard', 'discord', 'email', 'gotify', 'ntfy', 'slack', 'teams'));
alter table webhooks add column daily boolean not null default false check (not daily or format = 'email');

-- How many e-mails the webhooks of a tenant have sent in an hour, by all instances of the service together.
create table webhook_emails (
	tenant_id uuid,
	hour timestamptz not null, -- its begin
	sent int not null check (sent > 0),
	primary key (tenant_id),
	foreign key (tenant_id) references tenants (tenant_id)
);
call tenant_table('webhook_emails', 'select, insert, update');
