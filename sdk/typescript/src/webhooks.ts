import type { WebhookEvent } from "./api.js";
import { SpoolwrightError } from "./core.js";

/** The request is not an authentic, recent message of the service. */
export class WebhookError extends SpoolwrightError {}

/** Headers of a request: of `fetch`, or of Node.js. */
export type WebhookHeaders = Headers | Readonly<Record<string, string | readonly string[] | undefined>>;

/**
 * Checks the signature of a webhook request, and returns its event.
 *
 * Throws WebhookError if no signature is valid, or if the request is too old or from the future.
 *
 * @param body The body exactly as received.
 * @param headers The headers of the request. Their names are not case-sensitive.
 * @param secret The secret of the webhook, `whsec_...`, or several.
 * @param options `tolerance`: the largest accepted difference of the clocks, 300 seconds by default. `now`: the Unix
 *   time to compare with.
 */
export async function verifyWebhook(
  body: string | Uint8Array,
  headers: WebhookHeaders,
  secret: string | readonly string[],
  options: { tolerance?: number; now?: number } = {},
): Promise<WebhookEvent> {
  const header = (name: string): string => {
    const value = headers instanceof Headers
      ? headers.get(name)
      : Object.entries(headers).find(([key]) => key.toLowerCase() === name)?.[1];
    if (value === null || value === undefined) throw new WebhookError(`the header ${name} is missing`);
    return String(value);
  };
  const id = header("webhook-id");
  const timestamp = header("webhook-timestamp");
  const signatures = header("webhook-signature").split(" ");
  if (!/^\d+$/.test(timestamp)) throw new WebhookError("webhook-timestamp is not a Unix time");
  if (Math.abs((options.now ?? Date.now() / 1000) - Number(timestamp)) > (options.tolerance ?? 300)) {
    throw new WebhookError("webhook-timestamp is too far from the current time");
  }
  const encoder = new TextEncoder();
  const content = typeof body === "string" ? encoder.encode(body) : body;
  const start = encoder.encode(`${id}.${timestamp}.`);
  const signed = new Uint8Array(start.length + content.length);
  signed.set(start);
  signed.set(content, start.length);
  const subtle = await subtleCrypto();
  let valid = false;
  for (const s of typeof secret === "string" ? [secret] : secret) {
    const key = await subtle.importKey("raw", decodeSecret(s), { name: "HMAC", hash: "SHA-256" }, false, ["verify"]);
    for (const signature of signatures) {
      const bytes = signature.startsWith("v1,") ? base64(signature.slice(3)) : undefined;
      if (bytes && (await subtle.verify("HMAC", key, bytes, signed))) valid = true;
    }
  }
  if (!valid) throw new WebhookError("webhook-signature has no valid signature");
  let event: WebhookEvent | null;
  try {
    event = JSON.parse(new TextDecoder().decode(content));
  } catch {
    event = null;
  }
  if (typeof event?.type !== "string") throw new WebhookError("the body is not an event");
  return event;
}

function decodeSecret(secret: string): Uint8Array<ArrayBuffer> {
  const bytes = base64(secret.replace(/^whsec_/, ""));
  if (!bytes) throw new TypeError("the secret is not whsec_ and base64");
  return bytes;
}

function base64(text: string): Uint8Array<ArrayBuffer> | undefined {
  try {
    return Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  } catch {
    return undefined;
  }
}

/** Returns Web Crypto. Node.js 18 has no global Web Crypto, only a module. */
async function subtleCrypto(): Promise<SubtleCrypto> {
  if (globalThis.crypto?.subtle) return globalThis.crypto.subtle;
  const name = "node:crypto"; // not a literal, so that bundlers for browsers ignore it
  return (await import(/* @vite-ignore */ /* webpackIgnore: true */ name)).webcrypto.subtle;
}
