// Prints the calls per second of spools.get, of bare fetch, and the median of their ratios.
//
// The rounds alternate, so that other load of the machine affects both. FARM_URL, FARM_EMAIL, FARM_PASSWORD: the
// service.

import { Client } from "spoolwright";

const rounds = 15, calls = 200;
const { FARM_URL: url, FARM_EMAIL: email, FARM_PASSWORD: password } = process.env;
const ada = await Client.login(url, { email, password });
const { key } = await ada.apiKeys.create({ name: "bench", role: "operator" });
const farm = new Client(url, { apiKey: key });
const { id } = await farm.spools.create({
  material_type: "PLA", color: "Black", diameter_mm: 1.75, net_weight_grams: 1000,
});

async function bare() {
  const response = await fetch(`${url}/api/v1/spools/${id}`, { headers: { "X-API-Key": key } });
  if ((await response.json()).id !== id) throw new Error("another spool");
}

async function rate(call) {
  const begin = performance.now();
  for (let i = 0; i < calls; i++) await call();
  return (1000 * calls) / (performance.now() - begin);
}

const median = (values) => values.sort((a, b) => a - b)[values.length >> 1];

await rate(bare);
const rates = [];
for (let i = 0; i < rounds; i++) rates.push([await rate(() => farm.spools.get(id)), await rate(bare)]);
const [client, direct] = [0, 1].map((i) => median(rates.map((r) => r[i])).toFixed(0));
const ratio = median(rates.map(([c, d]) => c / d)).toFixed(2);
console.log(`spools.get ${client}/s, fetch ${direct}/s, ratio ${ratio}`);
