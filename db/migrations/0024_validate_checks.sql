-- In a transaction without the changes of the tables, this reads the tables while others read and write them.
alter table spools validate constraint spools_valid;
alter table spool_usage validate constraint spool_usage_valid;
