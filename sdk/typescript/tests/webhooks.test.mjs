// Tests of verifyWebhook. WEBHOOK_VECTORS is testdata/webhooks.json.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { test } from "node:test";
import { Client, verifyWebhook, WebhookError } from "spoolwright";

const vectors = JSON.parse(readFileSync(process.env.WEBHOOK_VECTORS, "utf8"));

for (const { name, valid, body, headers, secrets, now } of vectors) {
  test(`vector: ${name}`, async () => {
    for (const b of [body, new TextEncoder().encode(body)]) {
      const event = verifyWebhook(b, headers, secrets, { now });
      if (valid) assert.equal((await event).type, JSON.parse(body).type);
      else await assert.rejects(event, WebhookError);
    }
  });
}

test("arguments", async () => {
  const { body, headers, secrets: [secret], now } = vectors[0];
  await assert.rejects(verifyWebhook(body, headers, secret), WebhookError); // too old by the clock
  await assert.rejects(verifyWebhook(body, headers, "whsec_?", { now }), TypeError);
  const event = await verifyWebhook(body, new Headers(headers), secret, { now, tolerance: 1 });
  assert.equal(event.data.message, "This is a test.");
});

test("without the global crypto, as in Node.js 18", async () => {
  const { body, headers, secrets, now } = vectors[0];
  const descriptor = Object.getOwnPropertyDescriptor(globalThis, "crypto");
  delete globalThis.crypto;
  try {
    assert.equal(globalThis.crypto, undefined);
    assert.equal((await verifyWebhook(body, headers, secrets, { now })).type, "webhook.test");
  } finally {
    if (descriptor) Object.defineProperty(globalThis, "crypto", descriptor);
  }
});

test("a request of the service", async () => {
  const { FARM_URL: url, FARM_EMAIL: email, FARM_PASSWORD: password } = process.env;
  let arrived;
  const request = new Promise((resolve) => (arrived = resolve));
  const server = createServer(async (incoming, response) => {
    const chunks = [];
    for await (const chunk of incoming) chunks.push(chunk);
    response.writeHead(204).end();
    arrived([Buffer.concat(chunks), incoming.headers]);
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  const farm = await Client.login(url, { email, password });
  const receiver = `http://127.0.0.1:${server.address().port}/`;
  const webhook = await farm.webhooks.create({ url: receiver, events: ["production_run.completed"] });
  await farm.webhooks.test(webhook.id);
  const [body, headers] = await request;
  const event = await verifyWebhook(body, headers, webhook.secret);
  assert.equal(event.data.webhook_id, webhook.id);
  await farm.webhooks.delete(webhook.id);
  server.closeAllConnections();
  server.close();
});
