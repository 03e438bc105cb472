// A script of a farm, in TypeScript: it logs in, creates a spool, deducts from it, completes a run that uses it, and
// prints the results.
import createClient from "openapi-fetch";
import type { components, paths } from "./api.js";

const env = (name: string): string => {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set`);
  return value;
};

// ok returns the data of a successful response, and throws on an error.
function ok<T>(answer: { data?: T; error?: unknown; response: Response }): T {
  if (answer.data === undefined) {
    throw new Error(`${answer.response.url}: ${answer.response.status} ${JSON.stringify(answer.error)}`);
  }
  return answer.data;
}

const api = createClient<paths>({ baseUrl: env("FARM_URL") });
const credentials = { email: env("FARM_EMAIL"), password: env("FARM_PASSWORD") };
const tokens = ok(await api.POST("/api/v1/auth/login", { body: credentials }));
api.use({
  onRequest({ request }) {
    request.headers.set("Authorization", `Bearer ${tokens.access_token}`);
  },
});

const unique = (): string => `${Date.now()}-${Math.random()}`;
const brand = `Brand ${unique()}`;
const entry: components["schemas"]["SpoolCreate"] = {
  material_type: "PETG", brand, color: "Jet Black", diameter_mm: 1.75, net_weight_grams: 1000, purchase_price: 29.99,
  notes: null,
};
const key = { "Idempotency-Key": unique() };
const spool = ok(await api.POST("/api/v1/spools", { params: { header: key }, body: entry }));
const again = ok(await api.POST("/api/v1/spools", { params: { header: key }, body: entry }));
if (again.id !== spool.id) throw new Error("a repeated request has created another spool");
const { brand: _, ...plain } = entry;
const several = ok(await api.POST("/api/v1/spools/batch", { body: { ...plain, quantity: 2 } }));
if (several.items.length !== 2) throw new Error("two spools were not created");

const list = ok(await api.GET("/api/v1/spools", {
  params: { query: { brand, in_stock: true, sort_by: "remaining_weight_grams", sort_order: "asc", limit: 5 } },
}));
const listed: string[] = list.items.map((item) => item.id);

const path = { id: spool.id };
const deduction = ok(await api.POST("/api/v1/spools/{id}/deduct", {
  params: { path }, body: { weight_grams: 45.5, reason: "Test print" },
}));
const left: number = deduction.remaining_weight_grams;
const { error } = await api.POST("/api/v1/spools/{id}/deduct", { params: { path }, body: { weight_grams: 2000 } });
const refused: string | undefined = error?.code;

const run = ok(await api.POST("/api/v1/production-runs", {
  body: { status: "in_progress", printer_name: "Printer 1", estimated_total_filament_grams: 150 },
}));
const material = ok(await api.POST("/api/v1/production-runs/{id}/materials", {
  params: { path: { id: run.id } }, body: { spool_id: spool.id, estimated_weight_grams: 150 },
}));
ok(await api.PATCH("/api/v1/production-runs/{id}/materials/{material_id}", {
  params: { path: { id: run.id, material_id: material.id } },
  body: { spool_weight_before_grams: left, spool_weight_after_grams: 799.25 },
}));
const params = { path: { id: run.id } };
const completion = ok(await api.POST("/api/v1/production-runs/{id}/complete", { params }));
const done: components["schemas"]["Run"] = ok(await api.GET("/api/v1/production-runs/{id}", { params }));
const rating: number | null = done.quality_rating;

console.log(JSON.stringify({
  listed: listed.length === 1 && listed[0] === spool.id && list.total === 1,
  cost_per_gram: spool.cost_per_gram, left, refused,
  deducted: completion.spools_updated.map((u) => u.deducted),
  status: done.status, variance: done.variance_analysis.material_variance_grams, rating,
}));
