-- Binds the current transaction to a tenant on behalf of an API key, as bind_tenant does on behalf of a user. The
-- ledger then records the key. The key must exist in the tenant, must not be revoked or expired, and key_hash must be
-- the SHA-256 of its secret, or of its previous secret until that expires; otherwise the function raises SW402.
create or replace function bind_key(tenant uuid, api_key uuid, key_hash bytea) returns void language plpgsql as $$
begin
	perform bind_tenant(tenant, null, null), set_config('app.api_key_id', api_key::text, true);
	if not exists (
		select from api_keys k
		where k.tenant_id = tenant and k.id = api_key and k.revoked_at is null
			and (k.expires_at is null or k.expires_at > now())
			and (k.hash = key_hash or k.previous_hash = key_hash and k.previous_until > now())
	) then
		raise exception 'the API key is unknown, revoked or expired' using errcode = 'SW402';
	end if;
end $$;
