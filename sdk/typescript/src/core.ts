// The part of the client that is written by hand: tokens, retries, values and iterators.

/** Whether decimals in responses are numbers or strings. */
export type DecimalMode = "number" | "string";
/** The type of a decimal in responses. */
export type Decimals = { number: number; string: string };
/** A decimal in a request. A string such as `"0.1"` is sent exactly, as a JSON number. */
export type Decimal = number | string;

/** Options of a client. */
export interface ClientOptions<M extends DecimalMode = "number"> {
  /** An API key. Without one, use `Client.login`. */
  apiKey?: string | undefined;
  /** Milliseconds that one try of a call may take. The default is 30,000. */
  timeout?: number | undefined;
  /** How often a call is tried again after a connection error, a 429, or a 502, 503 or 504. The default is 2. */
  retries?: number | undefined;
  /** Whether a PATCH or DELETE is tried again if the service may have executed it. The default is false. */
  repeatWrites?: boolean | undefined;
  /** `"string"`: decimals in responses are strings. The default is `"number"`. */
  decimals?: M | undefined;
  /** Replaces the global `fetch`. */
  fetch?: typeof fetch | undefined;
}

/** Options of one call. They replace the options of the client. */
export interface RequestOptions {
  /** Cancels the call. A canceled write may have happened. */
  signal?: AbortSignal | undefined;
  timeout?: number | undefined;
  retries?: number | undefined;
  repeatWrites?: boolean | undefined;
}

/** An option of calls that are safe to repeat. */
export interface Keyed {
  /** Makes the request safe to repeat, also by another process. By default each call has a key. */
  idempotencyKey?: string | undefined;
}

/** An option of calls that change a resource with a version. */
export interface IfMatch {
  /** The `etagOf` the resource as you know it. If it has changed since, the call throws PreconditionFailedError. */
  ifMatch?: string | undefined;
}

/** The base class of all exceptions of this package, except those for invalid arguments and cancellation. */
export class SpoolwrightError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** No response: the connection failed. */
export class TransportError extends SpoolwrightError {
  /** False if the service did not get the request, true if it may have executed it. */
  readonly sent: boolean;

  constructor(message: string, sent: boolean, options?: ErrorOptions) {
    super(message, options);
    this.sent = sent;
  }
}

/** No response within the timeout. */
export class RequestTimeout extends TransportError {}

/** A problem with one field of a request. */
export interface FieldError {
  readonly field: string;
  readonly message: string;
}

/** The service responded with an error. Each code of the API has a subclass. */
export class ApiError extends SpoolwrightError {
  readonly status: number;
  readonly code: string;
  readonly detail: string;
  /** The invalid fields, with a 422. */
  readonly errors: readonly FieldError[];
  /** The id under which the log of the service has the request. */
  readonly requestId: string | undefined;
  /** The seconds to wait before the next try, if the service sent them. */
  readonly retryAfter: number | undefined;

  constructor(
    status: number,
    code: string,
    detail: string,
    errors: readonly FieldError[] = [],
    headers: Headers = new Headers(),
  ) {
    super(`${status} ${code}: ${detail}`);
    this.status = status;
    this.code = code;
    this.detail = detail;
    this.errors = errors;
    this.requestId = headers.get("X-Request-Id") ?? undefined;
    const seconds = headers.get("Retry-After") ?? "";
    this.retryAfter = /^\d+$/.test(seconds) ? Number(seconds) : undefined;
  }
}

const etags = /* @__PURE__ */ new WeakMap<object, string>();

/** Returns the version of a resource, for `ifMatch`. It is undefined in lists, and where the service sends none. */
export function etagOf(resource: object): string | undefined {
  return etags.get(resource);
}

/** Returns a path segment. */
export function segment(value: string | number): string {
  if (value === "" || value == null) throw new TypeError("the id is empty");
  if (value === "." || value === "..") throw new TypeError("the id is a relative path");
  return encodeURIComponent(value);
}

/** Returns random bytes as an id. It must be unique, but not secret: browsers without HTTPS lack randomUUID. */
function newKey(): string {
  const bytes = new Uint8Array(16);
  if (globalThis.crypto) globalThis.crypto.getRandomValues(bytes);
  else for (let i = 0; i < bytes.length; i++) bytes[i] = Math.random() * 256;
  return Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");
}

const jsonNumber = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/;

/** Returns the JSON text of a value. Strings in fields that are decimals become numbers with the same digits. */
function encode(value: unknown, decimals: ReadonlySet<string>, key = ""): string {
  if (typeof value === "number" && !Number.isFinite(value)) throw new TypeError(`${key}: ${value} is not a number`);
  if (typeof value === "string" && decimals.has(key)) {
    if (!jsonNumber.test(value)) throw new TypeError(`${key}: ${JSON.stringify(value)} is not a decimal`);
    return value;
  }
  if (typeof value !== "object" || value === null || value instanceof Date) return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map((item) => encode(item, decimals)).join()}]`;
  const members = Object.entries(value).filter(([, v]) => v !== undefined);
  return `{${members.map(([k, v]) => `${JSON.stringify(k)}:${encode(v, decimals, k)}`).join()}}`;
}

/** The description of the API that a generated client passes to its base class. */
export interface Description {
  errors: Record<string, typeof ApiError>;
  decimals: ReadonlySet<string>;
  version: string;
}

/** The parts of a request that differ between operations. */
export interface Parts {
  query?: Record<string, unknown>;
  body?: object;
  csv?: string | Uint8Array;
  jsonl?: string | Uint8Array;
  file?: Uint8Array;
  keyed?: boolean;
  anonymous?: boolean;
}

interface Tokens {
  access_token: string;
  refresh_token: string;
  expires_in: number;
}

// The codes of errors before a connection was open. The service did not get the request.
const notSent = ["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH", "UND_ERR_CONNECT_TIMEOUT"];
const certificate = /CERT|SELF_SIGNED|UNABLE_TO_/;

/** The base class of `Client`. It sends requests and renews tokens. `Client` adds the operations. */
export class BaseClient {
  readonly #base: string;
  readonly #options: ClientOptions<DecimalMode>;
  readonly #description: Description;
  #tokens: Tokens | undefined;
  #renewAt = 0; // the time at which the client renews the access token
  #renewing: Promise<boolean> | undefined;

  constructor(url: string, options: ClientOptions<DecimalMode>, description: Description) {
    const parsed = new URL(url);
    if (!/^https?:$/.test(parsed.protocol) || parsed.search || parsed.hash || parsed.username) {
      throw new TypeError(`${url} is not the URL of a service, such as https://farm.example`);
    }
    this.#base = parsed.href.replace(/\/+$/, "") + "/api/v1";
    this.#options = options;
    this.#description = description;
  }

  /** @internal */
  protected async authenticate(credentials: { email: string; password: string; otp?: string | undefined }): Promise<void> {
    this.#setTokens(await this.call<Tokens>("POST", "/auth/login", { body: credentials, anonymous: true }, {}));
  }

  /** Ends the login. */
  async logout(): Promise<void> {
    const tokens = this.#tokens;
    if (!tokens?.refresh_token) return;
    this.#tokens = { ...tokens, refresh_token: "" };
    await this.call("POST", "/auth/logout", { body: { refresh_token: tokens.refresh_token } }, {});
  }

  #setTokens(tokens: Tokens): void {
    this.#tokens = tokens;
    this.#renewAt = Date.now() + 1000 * (tokens.expires_in - Math.min(30, tokens.expires_in / 5));
  }

  /** @internal Sends a request, and returns the decoded response. */
  async call<T>(method: string, path: string, parts: Parts, options: RequestOptions & Keyed & IfMatch): Promise<T> {
    const { apiKey, decimals, timeout, retries, repeatWrites, fetch: send } = { ...this.#options, ...defined(options) };
    const { signal } = options;
    const headers: Record<string, string> = { Accept: "application/json, text/csv" };
    let url = this.#base + path;
    if (parts.query) {
      const pairs = Object.entries(parts.query).filter(([, v]) => v !== undefined);
      const text = (v: unknown) => (v instanceof Date ? v.toISOString() : String(v));
      if (pairs.length > 0) url += `?${new URLSearchParams(pairs.map(([k, v]) => [k, text(v)]))}`;
    }
    let body: string | Uint8Array | undefined;
    if (parts.body) {
      body = encode(parts.body, this.#description.decimals);
      headers["Content-Type"] = "application/json";
    } else if (parts.csv !== undefined || parts.jsonl !== undefined) {
      body = parts.csv ?? parts.jsonl;
      headers["Content-Type"] = parts.csv !== undefined ? "text/csv" : "application/jsonl";
    } else if (parts.file !== undefined) {
      body = parts.file;
      headers["Content-Type"] = "application/octet-stream";
    }
    if (parts.keyed) headers["Idempotency-Key"] = options.idempotencyKey ?? newKey();
    if (options.ifMatch !== undefined) headers["If-Match"] = options.ifMatch;
    if (apiKey !== undefined) headers["X-API-Key"] = apiKey;
    // A repeated refresh within 30 seconds returns the current tokens again.
    const repeatable = method === "GET" || parts.keyed || path === "/auth/refresh" || repeatWrites;
    let renewed = false;
    for (let attempt = 0; ; attempt++) {
      let token: string | undefined;
      if (!parts.anonymous && apiKey === undefined) {
        token = await this.#token(signal);
        headers["Authorization"] = `Bearer ${token}`;
      }
      const last = attempt >= (retries ?? 2);
      let seconds: number | undefined;
      const result = await this.#send(send, url, { method, headers, body }, timeout ?? 30_000, signal);
      if (result instanceof TransportError) {
        if (last || certificate.test(errorCode(result.cause)) || (result.sent && !repeatable)) throw result;
      } else {
        const [response, text] = result;
        if (response.ok) return this.#decode<T>(response, text, decimals);
        const error = this.#error(response, text);
        if (error.status === 401 && token !== undefined && !renewed && (await this.#renew(token, signal))) {
          renewed = true;
          attempt--;
          continue;
        }
        const again = error.status === 429 || (repeatable && [502, 503, 504].includes(error.status));
        if (last || !again || (error.retryAfter ?? 0) > 60) throw error;
        seconds = error.retryAfter;
      }
      const pause = 250 * 2 ** attempt;
      const milliseconds = (seconds ? seconds * 1000 : pause) + Math.random() * pause;
      let timer: ReturnType<typeof setTimeout> | undefined;
      try {
        await abortable(new Promise((wake) => (timer = setTimeout(wake, milliseconds))), signal);
      } finally {
        clearTimeout(timer); // otherwise an aborted call would keep a program from ending
      }
    }
  }

  /** Sends a request once, and returns the whole response or the error of the connection. */
  async #send(
    send: typeof fetch | undefined,
    url: string,
    request: { method: string; headers: Record<string, string>; body: string | Uint8Array | undefined },
    timeout: number,
    signal: AbortSignal | undefined,
  ): Promise<[Response, string] | TransportError> {
    signal?.throwIfAborted();
    const controller = new AbortController();
    const cancel = () => controller.abort();
    signal?.addEventListener("abort", cancel);
    let late = false;
    const timer = setTimeout(() => {
      late = true;
      controller.abort();
    }, timeout);
    const what = `${request.method} ${url}`;
    try {
      const init = { ...request, signal: controller.signal, redirect: "error", credentials: "omit", cache: "no-store" };
      const response = await (send ?? fetch)(url, init as RequestInit);
      return [response, await response.text()];
    } catch (cause) {
      signal?.throwIfAborted();
      if (late) return new RequestTimeout(`${what}: no response within ${timeout} ms`, true, { cause });
      const code = errorCode(cause);
      const sent = !notSent.includes(code) && !certificate.test(code);
      return new TransportError(`${what}: ${reason(cause, code)}`, sent, { cause });
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", cancel);
    }
  }

  #decode<T>(response: Response, text: string, decimals: DecimalMode | undefined): T {
    if (response.status === 204) return undefined as T;
    if (!response.headers.get("Content-Type")?.startsWith("application/json")) return text as T;
    const names = this.#description.decimals;
    const value: unknown = JSON.parse(text, decimals === "string"
      ? (key, v: unknown) => (typeof v === "number" && names.has(key) ? String(v) : v)
      : undefined);
    const etag = response.headers.get("ETag");
    if (etag !== null && typeof value === "object" && value !== null) etags.set(value, etag);
    return value as T;
  }

  #error(response: Response, text: string): ApiError {
    let body: { code?: unknown; detail?: unknown; errors?: FieldError[] } | undefined;
    try {
      body = JSON.parse(text);
    } catch {
      // A proxy responded.
    }
    const code = typeof body?.code === "string" ? body.code : "";
    const detail = typeof body?.detail === "string" ? body.detail : text.slice(0, 200);
    const type = this.#description.errors[code] ?? ApiError;
    return new type(response.status, code, detail, body?.errors ?? [], response.headers);
  }

  /** Returns the access token, after a refresh if it expires soon. */
  async #token(signal: AbortSignal | undefined): Promise<string> {
    const tokens = this.#tokens;
    if (!tokens) throw new SpoolwrightError("the client has no API key and no login; use Client.login");
    if (tokens.refresh_token && Date.now() >= this.#renewAt) await this.#renew(tokens.access_token, signal);
    return this.#tokens?.access_token ?? "";
  }

  /** Replaces the access token, unless another call already did. Returns false if the login has ended. */
  async #renew(token: string, signal: AbortSignal | undefined): Promise<boolean> {
    if (this.#tokens?.access_token !== token) return true;
    if (!this.#tokens.refresh_token) return false;
    this.#renewing ??= this.#refresh(this.#tokens).finally(() => (this.#renewing = undefined));
    return abortable(this.#renewing, signal);
  }

  async #refresh(tokens: Tokens): Promise<boolean> {
    const body = { refresh_token: tokens.refresh_token };
    try {
      this.#setTokens(await this.call<Tokens>("POST", "/auth/refresh", { body, anonymous: true }, {}));
      return true;
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 401) throw error;
      this.#tokens = { ...tokens, refresh_token: "" };
      return false;
    }
  }
}

/** Returns the options that are not undefined. */
function defined<T extends object>(options: T): Partial<T> {
  return Object.fromEntries(Object.entries(options).filter(([, v]) => v !== undefined)) as Partial<T>;
}

/** Returns the code of an error or of its cause, or "". */
function errorCode(error: unknown): string {
  for (let e = error, depth = 0; typeof e === "object" && e !== null && depth < 4; depth++) {
    if ("code" in e && typeof e.code === "string") return e.code;
    e = (e as { cause?: unknown }).cause;
  }
  return "";
}

/** Returns the messages of an error and of its causes, and the code. The message of fetch is only "fetch failed". */
function reason(error: unknown, code: string): string {
  const texts: string[] = [];
  for (let e = error; e instanceof Error && texts.length < 4; e = e.cause) texts.push(e.message);
  const text = texts.filter((message) => message !== "").join(": ") || String(error);
  return code === "" || text.includes(code) ? text : `${text} (${code})`;
}

/** Waits for the promise, or until the signal cancels the wait. */
function abortable<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (!signal) return promise;
  return new Promise((resolve, reject) => {
    const cancel = () => reject(signal.reason);
    if (signal.aborted) cancel();
    signal.addEventListener("abort", cancel);
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", cancel));
  });
}

/**
 * Yields each item of a list once. It selects the pages of the list by the number of items to skip.
 *
 * Each page begins with the last item of the page before. If a page does not, items were deleted. Then the function
 * fetches earlier pages until a page begins with a known item.
 */
export async function* pages<T extends { readonly id: string }>(
  client: BaseClient,
  path: string,
  query: Record<string, unknown>,
  options: RequestOptions,
): AsyncGenerator<T, void, undefined> {
  const seen = new Set<string>();
  const limit = 100;
  for (let skip = 0; ; skip += limit - 1) {
    let items: readonly T[];
    for (;;) {
      const parts = { query: { ...query, skip, limit } };
      ({ items } = await client.call<{ items: readonly T[] }>("GET", path, parts, options));
      if (skip === 0 || (items[0] && seen.has(items[0].id))) break;
      skip = Math.max(0, skip - limit + 1);
    }
    for (const item of items) {
      if (!seen.has(item.id)) {
        seen.add(item.id);
        yield item;
      }
    }
    if (items.length < limit) return;
  }
}

interface Page<T> {
  readonly items: readonly T[];
  readonly total: number;
  readonly next: string | null;
}

/** Yields the items of a list. It selects the pages by cursor, or by number if the sort order has no cursor. */
export async function* cursorPages<T extends { readonly id: string }>(
  client: BaseClient,
  path: string,
  query: Record<string, unknown>,
  options: RequestOptions,
): AsyncGenerator<T, void, undefined> {
  for (let after: string | null | undefined; after !== null; ) {
    const parts = { query: { ...query, limit: 100, after } };
    const page = await client.call<Page<T>>("GET", path, parts, options);
    if (after === undefined && page.next === null && page.total > page.items.length) {
      yield* pages<T>(client, path, query, options);
      return;
    }
    yield* page.items;
    after = page.next;
  }
}
