-- Returns a new UUIDv7 (RFC 9562), for rows that a statement inserts without an id from the program. The first 48 bits
-- are the time in milliseconds. The function overwrites the version bits of a UUIDv4 from gen_random_uuid.
create or replace function uuid_v7() returns uuid language sql volatile parallel safe as $$
	select encode(
		set_bit(set_bit(
			overlay(uuid_send(gen_random_uuid())
				placing substring(int8send(floor(extract(epoch from clock_timestamp()) * 1000)::bigint) from 3)
				from 1 for 6),
			52, 1), 53, 1),
		'hex')::uuid
$$;
