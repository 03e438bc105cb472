-- What a receiver understands. For the formats gotify and ntfy, the column secret has the receiver's token, or an
-- empty text; for the others except standard, it has an empty text.
alter table webhooks add column format text collate "C" not null default 'standard'
	check (format in ('standard', 'discord', 'gotify', 'ntfy', 'slack', 'teams'));
