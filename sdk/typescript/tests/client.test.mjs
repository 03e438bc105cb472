// Tests of the client against a real service. tests/blackbox/sdk_test.go starts the service and a proxy that breaks requests.
//
// FARM_URL, FARM_EMAIL, FARM_PASSWORD: the service. FARM_PROXY: the proxy. FARM_TLS_URL: a service with HTTPS, whose
// certificate is in NODE_EXTRA_CA_CERTS. FARM_DEDUCTIONS: the number of deductions through broken connections.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { request } from "node:http";
import { createServer } from "node:net";
import { text } from "node:stream/consumers";
import { before, beforeEach, describe, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import * as sw from "spoolwright";

const { FARM_URL: url, FARM_PROXY: proxy, FARM_EMAIL: email, FARM_PASSWORD: password } = process.env;
const login = { email, password };
let direct, key; // a client of the service, and an API key
let farm; // a client of the proxy

before(async () => {
  direct = await sw.Client.login(url, login);
  ({ key } = await direct.apiKeys.create({ name: "tests", role: "operator" }));
});

beforeEach(async () => {
  await faults();
  farm = new sw.Client(proxy, { apiKey: key });
});

// control sends a request to the proxy itself, and returns the body of the response. It has its own connection:
// fetch could use one that the proxy is about to close.
async function control(method, body) {
  const response = await new Promise((resolve, reject) => {
    request(`${proxy}/_faults`, { method, agent: false }, resolve).on("error", reject).end(body);
  });
  assert.equal(response.statusCode, 200);
  return text(response);
}

async function faults(...rules) {
  await control("POST", JSON.stringify(rules));
}

async function requests(method = "", path = "") {
  const log = JSON.parse(await control("GET"));
  return log.filter((r) => r.method.startsWith(method) && r.path.startsWith(path));
}

async function waitUntil(condition) {
  const deadline = Date.now() + 60_000;
  while (!(await condition())) {
    assert.ok(Date.now() < deadline, `not met within a minute: ${condition}`);
    await sleep(10);
  }
}

async function newSpool(fields = {}) {
  return direct.spools.create({
    material_type: "PLA", color: "Black", diameter_mm: 1.75, net_weight_grams: 1000, ...fields,
  });
}

async function remaining(spool) {
  return (await direct.spools.get(spool.id)).remaining_weight_grams;
}

async function collect(iterator) {
  const all = [];
  for await (const item of iterator) all.push(item);
  return all;
}

function shuffled(values) {
  return values.map((v) => [Math.random(), v]).sort((a, b) => a[0] - b[0]).map(([, v]) => v);
}

describe("calls", () => {
  test("values", async () => {
    const notes = "a\n\u00e4\u{1f9f5}";
    const spool = await newSpool({ net_weight_grams: "999999.123456", notes, purchase_price: "24.99" });
    assert.equal(spool.net_weight_grams, 999999.123456);
    assert.equal(spool.notes, notes);
    assert.equal(spool.brand, null);
    const exact = new sw.Client(url, { apiKey: key, decimals: "string" });
    const same = await exact.spools.get(spool.id);
    assert.equal(same.net_weight_grams, "999999.123456");
    assert.equal(same.purchase_price, "24.99");
    assert.equal(same.number, spool.number);
    assert.equal((await exact.spools.deduct(spool.id, { weight_grams: "0.000001" })).deducted, "0.000001");
    assert.equal((await exact.spools.get(spool.id)).remaining_weight_grams, "999999.123455");
    assert.equal((await exact.spools.list({ limit: 1 })).items[0].diameter_mm, "1.75");
    for (const wrong of ["1,5", "", "0x10", "NaN", '1,"id":1', NaN, Infinity]) {
      await assert.rejects(farm.spools.deduct(spool.id, { weight_grams: wrong }), TypeError);
    }
    assert.deepEqual(await requests(), []);
  });

  test("times", async () => {
    const run = await direct.productionRuns.create({ started_at: new Date("2024-01-15T12:00:00+02:00") });
    assert.equal(run.started_at, "2024-01-15T10:00:00Z");
  });

  test("update and ETag", async () => {
    const spool = await direct.spools.get((await newSpool({ brand: "Polymaker", notes: "keep" })).id);
    const changed = await direct.spools.update(spool.id, { brand: null, location: "A", color: undefined },
      { ifMatch: sw.etagOf(spool) });
    assert.deepEqual([changed.brand, changed.notes, changed.location], [null, "keep", "A"]);
    const stale = { ifMatch: sw.etagOf(spool) };
    await assert.rejects(direct.spools.update(spool.id, { location: "B" }, stale), sw.PreconditionFailedError);
    await assert.rejects(direct.spools.delete(spool.id, stale), sw.PreconditionFailedError);
    assert.equal(await direct.spools.delete(spool.id, { ifMatch: sw.etagOf(changed) }), undefined);
    await assert.rejects(direct.spools.get(spool.id), sw.NotFoundError);
    assert.equal((await direct.spools.restore(spool.id)).id, spool.id);
  });

  test("several spools, nested lists, CSV", async () => {
    const color = `many ${Math.random()}`;
    const fields = { material_type: "PLA", color, diameter_mm: 1.75, net_weight_grams: 1000 };
    const many = await direct.spools.createBatch({ ...fields, quantity: 3 });
    assert.equal(many.items.length, 3);
    const page = await direct.spools.list({ color, limit: 2, in_stock: true, sort_by: "number", sort_order: "asc" });
    assert.deepEqual(page.items.map((s) => s.id), many.items.slice(0, 2).map((s) => s.id));
    const run = await direct.productionRuns.create({ materials: [{ spool_id: many.items[0].id }] });
    await direct.productionRuns.updateMaterial(run.id, run.materials[0].id, { actual_weight_grams: "92.5" });
    const done = await direct.productionRuns.complete(run.id);
    assert.deepEqual(done.spools_updated.map((d) => d.new_weight), [907.5]);
    const usage = await collect(direct.spools.iterateUsage(many.items[0].id));
    assert.deepEqual(usage.map((u) => u.change_grams), [-92.5, 1000]);
    const csv = "material_type,color,diameter_mm,net_weight_grams\nPLA,Csv,1.75,750\n";
    assert.equal((await direct.spools.importCsv(csv)).created, 1);
    assert.match(await direct.spools.export(), /,Csv,/);
  });

  test("errors", async () => {
    const spool = await newSpool();
    await assert.rejects(direct.spools.deduct(spool.id, { weight_grams: 1001 }), (error) => {
      assert.ok(error instanceof sw.InsufficientFilamentError && error instanceof sw.ApiError);
      assert.equal(error.name, "InsufficientFilamentError");
      assert.deepEqual([error.status, error.code], [400, "INSUFFICIENT_FILAMENT"]);
      assert.match(error.message, /1001/);
      assert.ok(error.requestId);
      return true;
    });
    await assert.rejects(newSpool({ color: "", net_weight_grams: 0 }), (error) => {
      assert.ok(error instanceof sw.ValidationError);
      assert.deepEqual(error.errors.map((e) => e.field), ["color", "net_weight_grams"]);
      return true;
    });
    await assert.rejects(sw.Client.login(url, { email, password: "wrong password" }), sw.InvalidCredentialsError);
    await assert.rejects(new sw.Client(url, { apiKey: "swk_wrong" }).spools.list(), sw.InvalidApiKeyError);
    await assert.rejects(new sw.Client(url).spools.list(), sw.SpoolwrightError);
    assert.throws(() => new sw.Client("farm.example"), TypeError);
    await assert.rejects(farm.spools.get("a/../users?x=1#"), sw.ApiError);
    assert.equal((await requests())[0].path, "/api/v1/spools/a/../users?x=1#");
    for (const id of ["", ".."]) await assert.rejects(async () => farm.spools.get(id), TypeError);
  });

  test("logout", async () => {
    farm = await sw.Client.login(proxy, login);
    await farm.logout();
    await faults({ fault: "status", path: "/api/v1/spools", status: 401, times: 1, body: "{}" });
    await assert.rejects(farm.spools.list(), sw.ApiError);
    assert.deepEqual(await requests("POST", "/api/v1/auth/refresh"), []);
  });
});

describe("retries", () => {
  test("a POST with a lost answer happens once", async () => {
    for (const fault of ["before", "during", "after"]) {
      const spool = await newSpool();
      await faults({ fault, path: `/api/v1/spools/${spool.id}/deduct`, times: 2 });
      assert.equal((await farm.spools.deduct(spool.id, { weight_grams: 45.5 })).remaining_weight_grams, 954.5);
      assert.equal(await remaining(spool), 954.5);
      const sent = await requests("POST");
      assert.deepEqual([sent.length, new Set(sent.map((r) => r.key)).size], [3, 1]);
    }
    const spool = await newSpool();
    await faults();
    for (let i = 0; i < 2; i++) await farm.spools.deduct(spool.id, { weight_grams: 1 });
    assert.equal(new Set((await requests("POST")).map((r) => r.key)).size, 2);
    for (let i = 0; i < 2; i++) await farm.spools.deduct(spool.id, { weight_grams: 1 }, { idempotencyKey: "mine-ts" });
    assert.equal(await remaining(spool), 997);
  });

  test("gives up", async () => {
    for (const retries of [undefined, 0]) {
      await faults({ fault: "after", method: "GET", path: "/api/v1/spools" });
      await assert.rejects(farm.spools.list({}, { retries }), (e) => e instanceof sw.TransportError && e.sent);
      assert.equal((await requests("GET")).length, retries === 0 ? 1 : 3);
    }
  });

  test("status", async () => {
    for (const [status, headers] of [[429, { "Retry-After": "1" }], [502, {}], [503, {}], [504, {}]]) {
      await faults({ fault: "status", path: "/api/v1/spools", status, headers, times: 1 });
      const begin = Date.now();
      await farm.spools.list();
      assert.equal((await requests("GET")).length, 2);
      assert.ok(Date.now() - begin >= (headers["Retry-After"] ? 1000 : 200));
    }
    for (const [status, headers] of [[500, {}], [429, { "Retry-After": "3600" }]]) {
      await faults({ fault: "status", path: "/api/v1/spools", status, headers });
      const retryAfter = headers["Retry-After"] && 3600;
      await assert.rejects(farm.spools.list(), (e) => e.status === status && e.retryAfter === retryAfter);
      assert.equal((await requests("GET")).length, 1);
    }
  });

  test("PATCH and DELETE are not repeated", async () => {
    const path = "/api/v1/spools";
    for (const fault of ["before", "during", "after", "status"]) {
      const spool = await newSpool();
      await faults({ fault, status: 503, path });
      await assert.rejects(farm.spools.update(spool.id, { location: "A" }), sw.SpoolwrightError);
      // A 204 has no body that could be cut off.
      if (fault !== "during") await assert.rejects(farm.spools.delete(spool.id), sw.SpoolwrightError);
      assert.equal((await requests("PATCH")).length, 1);
      assert.ok((await requests("DELETE")).length <= 1);
    }
    const spool = await newSpool();
    await faults({ fault: "after", path, times: 1 });
    await farm.spools.update(spool.id, { location: "B" }, { repeatWrites: true });
    assert.equal((await requests("PATCH")).length, 2);
    await faults({ fault: "status", status: 429, path, times: 1 }); // a rejected request had no effect
    await farm.spools.update(spool.id, { location: "C" });
    assert.equal((await direct.spools.get(spool.id)).location, "C");
  });

  test("a refused connection is tried again, even for PATCH", async () => {
    let tries = 0;
    const counting = (...args) => (tries++, fetch(...args));
    // Nothing listens on port 2, and programs that ask for any port do not get it.
    const refused = new sw.Client("http://127.0.0.1:2", { apiKey: "x", fetch: counting });
    const wanted = (e) =>
      e instanceof sw.TransportError && !e.sent && /fetch failed: .*ECONNREFUSED/.test(e.message) && !!e.cause;
    await assert.rejects(refused.spools.update("x", { location: "A" }), wanted);
    assert.equal(tries, 3);
  });

  test("a connection that was closed while idle is not used", async () => {
    const spool = await newSpool();
    for (const location of ["A", "B", "C"]) {
      await faults({ fault: "idle", path: "/api/v1/spools", times: 1 });
      await farm.spools.get(spool.id);
      await waitUntil(async () => (await requests("GET"))[0].closed);
      // Between two timers, the event loop reads from the connection.
      for (let i = 0; i < 2; i++) await sleep(50);
      assert.equal((await farm.spools.update(spool.id, { location })).location, location);
    }
  });

  test("timeout", async () => {
    await faults({ fault: "slow", path: "/api/v1/spools", milliseconds: 60_000 });
    let tries = 0;
    const counting = (...args) => (tries++, fetch(...args)); // the proxy may get no request within the timeout
    const impatient = new sw.Client(proxy, { apiKey: key, fetch: counting });
    const begin = Date.now();
    await assert.rejects(impatient.spools.list({}, { timeout: 300, retries: 1 }), sw.RequestTimeout);
    assert.ok(Date.now() - begin < 30_000);
    assert.equal(tries, 2);
  });

  test("timeout includes a response that trickles", async (t) => {
    const server = createServer((socket) => {
      socket.on("error", () => {});
      socket.write("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n");
      const timer = setInterval(() => socket.write(" "), 50);
      socket.on("close", () => clearInterval(timer));
    });
    t.after(() => server.close()); // also after a failure
    await new Promise((done) => server.listen(0, "127.0.0.1", done));
    const options = { apiKey: "x", timeout: 500, retries: 0 };
    const trickle = new sw.Client(`http://127.0.0.1:${server.address().port}`, options);
    await assert.rejects(trickle.spools.list(), sw.RequestTimeout);
    await new Promise((done) => server.close(done));
  });

  test("cancellation", async () => {
    await faults({ fault: "slow", path: "/api/v1/spools", milliseconds: 60_000 });
    const reason = new Error("changed my mind");
    await assert.rejects(farm.spools.list({}, { signal: AbortSignal.abort(reason) }), reason);
    assert.deepEqual(await requests("GET"), []);
    const iterator = direct.spools.iterate({}, { signal: AbortSignal.abort(reason) });
    await assert.rejects(collect(iterator), reason);
    const first = new AbortController();
    const call = farm.spools.list({}, { signal: first.signal, timeout: 90_000 });
    await waitUntil(async () => (await requests("GET")).length > 0);
    let begin = Date.now();
    first.abort(reason);
    await assert.rejects(call, reason);
    assert.ok(Date.now() - begin < 30_000);
    assert.equal((await requests("GET")).length, 1);
    // Also during the pause before a retry, which begins when the client has the whole response.
    await faults({ fault: "status", path: "/api/v1/spools", status: 429, headers: { "Retry-After": "60" } });
    const second = new AbortController();
    const abortsLater = async (...args) => {
      const response = await fetch(...args);
      const body = await response.text();
      setTimeout(() => second.abort(reason), 100);
      return new Response(body, response);
    };
    const patient = new sw.Client(proxy, { apiKey: key, fetch: abortsLater });
    const { setTimeout: start, clearTimeout: clear } = globalThis;
    const pauses = new Set(); // the timers of pauses that would keep the program from ending
    globalThis.setTimeout = (wake, milliseconds) => {
      const timer = start(wake, milliseconds);
      if (milliseconds >= 60_000) pauses.add(timer);
      return timer;
    };
    globalThis.clearTimeout = (timer) => (pauses.delete(timer), clear(timer));
    begin = Date.now();
    try {
      await assert.rejects(patient.spools.list({}, { signal: second.signal }), reason);
    } finally {
      Object.assign(globalThis, { setTimeout: start, clearTimeout: clear });
    }
    assert.ok(Date.now() - begin < 30_000);
    assert.equal(pauses.size, 0);
    assert.equal((await requests("GET")).length, 1);
  });

  test("deductions through broken connections", async () => {
    const count = Number(process.env.FARM_DEDUCTIONS);
    const spools = [];
    for (let i = 0; i < 4; i++) spools.push(await newSpool({ net_weight_grams: 100000 }));
    await faults({ fault: "cut", path: "/api/v1/spools", every: 20 });
    const patient = new sw.Client(proxy, { apiKey: key, retries: 5 }); // six cuts in a row are one in 64 million
    let next = 0;
    await Promise.all(Array.from({ length: 8 }, async () => {
      for (let i = next++; i < count; i = next++) {
        await patient.spools.deduct(spools[i % spools.length].id, { weight_grams: "0.1" });
      }
    }));
    assert.ok((await requests()).filter((r) => r.fault).length >= Math.floor(count / 20));
    for (const spool of spools) {
      const usage = await collect(direct.spools.iterateUsage(spool.id));
      assert.equal(usage.length, 1 + count / spools.length);
      const micrograms = usage.reduce((sum, u) => sum + BigInt(Math.round(u.change_grams * 1e6)), 0n);
      assert.equal(micrograms, BigInt(Math.round((await remaining(spool)) * 1e6)));
      assert.equal(micrograms, 100_000_000_000n - 100_000n * BigInt(count / spools.length));
    }
  });
});

describe("refreshes", () => {
  let expired; // a rule that rejects the first access token
  let hold; // returns a promise for which a refresh waits before it is sent
  beforeEach(async () => {
    let token;
    hold = async () => {};
    const spy = async (...args) => {
      if (args[0].endsWith("/auth/refresh")) await hold();
      const response = await fetch(...args);
      if (args[0].endsWith("/auth/login")) token = (await response.clone().json()).access_token;
      return response;
    };
    farm = await sw.Client.login(proxy, login, { fetch: spy });
    expired = { fault: "status", token, status: 401, body: '{"code":"TOKEN_EXPIRED","detail":"expired"}' };
  });

  test("50 parallel calls refresh once after a 401", async () => {
    await faults(expired);
    const pages = await Promise.all(Array.from({ length: 50 }, () => farm.spools.list({ limit: 1 })));
    assert.deepEqual(pages.map((p) => p.limit), Array(50).fill(1));
    assert.equal((await requests("POST", "/api/v1/auth/refresh")).length, 1);
  });

  test("50 parallel calls refresh once before the token expires", async (t) => {
    const real = Date.now;
    t.mock.method(Date, "now", () => real() + 29.9 * 60_000);
    await Promise.all(Array.from({ length: 50 }, () => farm.spools.list({ limit: 1 })));
    assert.equal((await requests("POST", "/api/v1/auth/refresh")).length, 1);
  });

  test("a lost refresh is repeated", async () => {
    await faults(expired, { fault: "after", path: "/api/v1/auth/refresh", times: 1 });
    await farm.spools.list();
    assert.equal((await requests("POST", "/api/v1/auth/refresh")).length, 2);
  });

  test("a canceled call does not cancel the refresh of the others", async () => {
    await faults(expired);
    let release;
    hold = () => new Promise((resolve) => (release = resolve));
    const controller = new AbortController();
    const reason = new Error("changed my mind");
    const canceled = farm.spools.list({}, { signal: controller.signal });
    await waitUntil(() => release);
    const other = farm.spools.list();
    await waitUntil(async () => (await requests("GET")).length === 2);
    controller.abort(reason);
    await assert.rejects(Promise.race([canceled, sleep(30_000, undefined, { ref: false })]), reason);
    release();
    assert.equal((await other).skip, 0);
    assert.equal((await requests("POST", "/api/v1/auth/refresh")).length, 1);
  });

  test("an ended login", async () => {
    await faults({ fault: "status", path: "/api/v1/", status: 401, body: '{"code":"INVALID_TOKEN","detail":"x"}' });
    for (let i = 0; i < 3; i++) await assert.rejects(farm.spools.list(), sw.InvalidTokenError);
    assert.equal((await requests("POST", "/api/v1/auth/refresh")).length, 1);
  });
});

describe("iterators", () => {
  test("yield all items once while others come and go", async () => {
    const color = `iterate ${Math.random()}`;
    const fields = { material_type: "PLA", color, diameter_mm: 1.75, net_weight_grams: 1 };
    let ids = [];
    for (let i = 0; i < 6; i++) {
      ids.push(...(await direct.spools.createBatch({ ...fields, quantity: 100 })).items.map((s) => s.id));
    }
    for (const order of [{}, { sort_by: "brand", sort_order: "asc" }]) {
      const stay = new Set(ids);
      const got = [];
      for await (const spool of direct.spools.iterate({ color, ...order })) {
        got.push(spool.id);
        if (got.length % 90 === 0 && got.length < 400) {
          // Shortly before a page ends, delete items before and behind it, and create some.
          const victims = shuffled([...stay]).slice(0, 30);
          for (const id of victims) stay.delete(id);
          await Promise.all(victims.map((id) => direct.spools.delete(id)));
          await direct.spools.createBatch({ ...fields, quantity: 7 });
        }
      }
      assert.equal(new Set(got).size, got.length);
      assert.deepEqual([...stay].filter((id) => !got.includes(id)), []);
      ids = (await collect(direct.spools.iterate({ color }))).map((s) => s.id);
    }
  });

  test("yield the rest after most items were deleted", async () => {
    const color = `shrink ${Math.random()}`;
    const fields = { material_type: "PLA", color, diameter_mm: 1.75, net_weight_grams: 1, quantity: 100 };
    const ids = [];
    for (let i = 0; i < 3; i++) ids.push(...(await direct.spools.createBatch(fields)).items.map((s) => s.id));
    ids.reverse();
    const iterator = direct.spools.iterate({ color });
    const got = [];
    for (let i = 0; i < 100; i++) got.push((await iterator.next()).value.id);
    assert.deepEqual(got, ids.slice(0, 100));
    await Promise.all([...ids.slice(0, 99), ...ids.slice(100, 120)].map((id) => direct.spools.delete(id)));
    assert.deepEqual((await collect(iterator)).map((s) => s.id), ids.slice(120));
  });
});

test("certificates of the environment", async () => {
  const secure = process.env.FARM_TLS_URL;
  assert.equal((await (await sw.Client.login(secure, login)).spools.list()).skip, 0);
  const script = `import { Client } from "spoolwright";
    await Client.login(${JSON.stringify(secure)}, ${JSON.stringify(login)}, { retries: 0 })
      .then(() => console.log("trusted"), (e) => console.log(e.name));`;
  const env = { ...process.env, NODE_EXTRA_CA_CERTS: "" };
  const out = execFileSync(process.execPath, ["--input-type=module", "-e", script], { env, encoding: "utf8" });
  assert.equal(out, "TransportError\n");
});
