// Verifies a request to a webhook with the JavaScript library of Standard Webhooks: {"secret", "headers", "body"} on stdin.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const { Webhook } = createRequire(`${process.env.WEBHOOK_LIBRARIES}/`)("standardwebhooks");
const { secret, headers, body } = JSON.parse(readFileSync(0, "utf8"));
const webhook = new Webhook(secret);
const event = webhook.verify(body, headers);
try {
  webhook.verify(body + " ", headers);
} catch {
  console.log(event.type);
}
