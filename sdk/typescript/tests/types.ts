// Compiled, not run: the types that users see.

import { Client, etagOf, verifyWebhook, type Spool } from "spoolwright";

export async function numbers(farm: Client): Promise<number | null> {
  const spool: Spool = await farm.spools.get("x");
  const weight: number = spool.remaining_weight_grams;
  const etag: string | undefined = etagOf(spool);
  await farm.spools.update("x", { notes: null, location: undefined, net_weight_grams: "0.1" }, { ifMatch: etag });
  await farm.spools.deduct("x", { weight_grams: weight }, { idempotencyKey: "k", signal: AbortSignal.timeout(1) });
  // @ts-expect-error: the weight is required
  await farm.spools.deduct("x", {});
  // @ts-expect-error: a misspelled field
  await farm.spools.deduct("x", { weight_grams: 1, weight: 1 });
  // @ts-expect-error: not a material
  await farm.spools.list({ material_type: "wood" });
  // @ts-expect-error: a required field cannot be null
  await farm.spools.update("x", { color: null });
  // @ts-expect-error: create returns one spool
  await farm.spools.create({ material_type: "PLA", color: "x", diameter_mm: 1.75, net_weight_grams: 1, quantity: 2 });
  for await (const item of farm.spools.iterate({ material_type: "PLA" })) {
    const name: string = item.color;
    void name;
  }
  void (await verifyWebhook("{}", new Headers(), "whsec_")) satisfies unknown;
  return spool.purchase_price;
}

export async function strings(): Promise<string> {
  const farm = new Client("https://farm.example", { apiKey: "k", decimals: "string" });
  const spool = await farm.spools.get("x");
  const number: number = spool.number;
  void number;
  const login = await Client.login("https://farm.example", { email: "e", password: "p" }, { decimals: "string" });
  const price: string | null = (await login.spools.list()).items[0]?.purchase_price ?? null;
  return price ?? spool.remaining_weight_grams;
}
