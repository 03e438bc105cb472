-- Sets users.otp_missing. The share lock of the tenant's row makes the trigger and a change of the rule wait for each
-- other: either the change sees this user, or the trigger sees the new rule.
create or replace function compute_otp_missing() returns trigger language plpgsql as $$
declare
	rule text;
begin
	select t.second_factor into rule from tenants t where t.tenant_id = new.tenant_id for share;
	new.otp_missing := new.otp_at is null and coalesce(rule = 'all' or rule = 'admins' and new.role = 'admin', false);
	return new;
end $$;
create or replace trigger otp_missing before insert or update of role, otp_at, otp_missing on users
	for each row execute function compute_otp_missing();

-- Computes users.otp_missing of all users of a tenant whose rule has changed.
create or replace function change_second_factor() returns trigger language plpgsql as $$
begin
	update users u set otp_missing = not u.otp_missing where u.tenant_id = new.tenant_id
		and u.otp_missing is distinct from
			(u.otp_at is null and (new.second_factor = 'all' or new.second_factor = 'admins' and u.role = 'admin'));
	return null;
end $$;
create or replace trigger second_factor_changed after update of second_factor on tenants
	for each row when (old.second_factor is distinct from new.second_factor) execute function change_second_factor();
