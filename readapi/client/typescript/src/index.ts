export { Client } from "./client.js";
export { add, compare, subtract, type Decimal } from "./decimal.js";
export { ApiError, BrokenOffError, codeOf, type Code } from "./errors.js";
export type { CallOptions, ClientConfig } from "./http.js";
export { loadOnly, type FollowOptions, type List, type Page, type State, type Whole } from "./list.js";
export type * from "./types.js";
export { SignatureError, verify, webhook, type Delivery, type MessageHeaders, type VerifyOptions, type WebhookConfig } from "./webhook.js";
