-- The queue has items of several kinds. Each kind has its own workers.

alter table queue_signals add column kind text collate "C" not null default 'webhook' check (length(kind) <= 20);
alter table queue_items add column kind text collate "C" not null default 'webhook' check (length(kind) <= 20);
