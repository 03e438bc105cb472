-- Identifies the last report that was added to an entry of a printer, so that a repetition of it is recognised after a
-- crash. Null if the report had an idempotency key.
alter table spool_usage add column report_token bigint;
grant update (report_token) on spool_usage to spoolwright_app;
