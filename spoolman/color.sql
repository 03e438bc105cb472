-- Converts a color to the CIELAB color space (D65). The color is RRGGBB or RRGGBBAA, with or without a number sign.
-- The alpha does not count.
create or replace function color_lab(hex text) returns float8[]
language plpgsql immutable parallel safe as $$
declare
	code text := ltrim(hex, '#');
	c float8[];
	f float8[];
	v float8;
begin
	for i in 0..2 loop
		v := ('x' || substr(code, 2 * i + 1, 2))::bit(8)::int / 255.0;
		c[i] := case when v <= 0.04045 then v / 12.92 else power((v + 0.055) / 1.055, 2.4) end;
	end loop;
	f[0] := (0.4124 * c[0] + 0.3576 * c[1] + 0.1805 * c[2]) / 0.95047;
	f[1] := 0.2126 * c[0] + 0.7152 * c[1] + 0.0722 * c[2];
	f[2] := (0.0193 * c[0] + 0.1192 * c[1] + 0.9505 * c[2]) / 1.08883;
	for i in 0..2 loop
		f[i] := case when f[i] > 0.008856 then cbrt(f[i]) else 7.787 * f[i] + 16 / 116.0 end;
	end loop;
	return array[116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])];
end $$;

-- Returns the difference of two colors (CIE94): 0 for equal colors, about 2 for colors that are hard to tell apart,
-- and 100 for black and white.
create or replace function color_distance(a text, b text) returns float8
language plpgsql immutable parallel safe as $$
declare
	p float8[] := color_lab(a);
	q float8[] := color_lab(b);
	chroma float8 := sqrt(p[2] * p[2] + p[3] * p[3]);
	dc float8 := chroma - sqrt(q[2] * q[2] + q[3] * q[3]);
	dh float8 := greatest((p[2] - q[2]) ^ 2 + (p[3] - q[3]) ^ 2 - dc ^ 2, 0);
begin
	return sqrt((p[1] - q[1]) ^ 2 + (dc / (1 + 0.045 * chroma)) ^ 2 + dh / (1 + 0.015 * chroma) ^ 2);
end $$;
