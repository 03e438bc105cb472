export * from "./api.js";
export {
  ApiError,
  etagOf,
  RequestTimeout,
  SpoolwrightError,
  TransportError,
  type ClientOptions,
  type Decimal,
  type DecimalMode,
  type Decimals,
  type FieldError,
  type IfMatch,
  type Keyed,
  type RequestOptions,
} from "./core.js";
export { verifyWebhook, WebhookError, type WebhookHeaders } from "./webhooks.js";
