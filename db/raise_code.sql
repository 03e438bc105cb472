-- Raises an error with the SQLSTATE code. An expression can call it where a condition fails.
create or replace function raise_code(code text, message text) returns text language plpgsql as $$
begin
	raise exception '%', message using errcode = code;
end $$;
