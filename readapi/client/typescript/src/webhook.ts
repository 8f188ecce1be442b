import type { Event } from "./types.js";

/**
 * How far a message's time may be from now, in milliseconds. It stops somebody who recorded a
 * message from sending it again later.
 */
const tolerance = 300_000;
/** Bounds a message, in bytes. Messages carry only ids. */
const maxMessage = 1 << 20;
/** How many handled events a receiver remembers. */
const mostSeen = 100_000;

/** A message that does not come from the service. */
export class SignatureError extends Error {
  override readonly name = "SignatureError";

  constructor(readonly reason: "no_signature" | "bad_signature" | "timestamp") {
    super(
      {
        no_signature: "the message has no signature header that can be read",
        bad_signature: "no signature of the message matches its body and a secret",
        timestamp: "the time of the message is more than 5 minutes from now",
      }[reason],
    );
  }
}

export interface VerifyOptions {
  /** The word in the names of headers; SERVICE if it is missing. */
  brand?: string | undefined;
  /** For tests, in milliseconds. */
  now?: (() => number) | undefined;
}

/** Headers of fetch, or those of Node's http. */
export type MessageHeaders = Headers | Record<string, string | readonly string[] | undefined>;

/**
 * Checks that a message comes from the service: one of its signatures is made with one of the
 * secrets, and its time is within 5 minutes of now. Otherwise it fails with a SignatureError. body is
 * the raw body, before any parsing. It takes SERVICE-Signature and the headers of Standard Webhooks;
 * either is enough. While you rotate a secret, give the new one and the old one.
 *
 * No signature covers the headers, so do not rely on SERVICE-Log-Position for more than order.
 */
export async function verify(headers: MessageHeaders, body: string | Uint8Array, secrets: readonly string[], options: VerifyOptions = {}): Promise<void> {
  const header = reader(headers);
  const bytes = typeof body === "string" ? utf8(body) : body;
  const now = (options.now ?? Date.now)();
  try {
    await verifyOwn(header(`${options.brand ?? "SERVICE"}-Signature`), bytes, secrets, now);
  } catch (error) {
    if (header("webhook-signature") === "") throw error;
    await verifyStandard(header, bytes, secrets, now);
  }
}

/** Checks a header t=<seconds>,v1=<hex>,v1=<hex>. */
async function verifyOwn(header: string, body: Uint8Array, secrets: readonly string[], now: number): Promise<void> {
  let stamp = "";
  const signatures: Uint8Array[] = [];
  for (const part of header.split(",")) {
    const [, name, value = ""] = /^\s*(t|v1)=(.*?)\s*$/.exec(part) ?? [];
    if (name === "t") stamp = value;
    else if (name === "v1" && /^([0-9a-f]{2})+$/i.test(value)) {
      signatures.push(Uint8Array.from(value.match(/../g) ?? [], (pair) => parseInt(pair, 16)));
    }
  }
  await check(stamp, `${stamp}.`, body, signatures, secrets.map(utf8), now);
}

/** Checks the headers of Standard Webhooks (standardwebhooks.com). */
async function verifyStandard(header: (name: string) => string, body: Uint8Array, secrets: readonly string[], now: number): Promise<void> {
  const stamp = header("webhook-timestamp");
  const signatures: Uint8Array[] = [];
  for (const text of header("webhook-signature").split(/\s+/)) {
    const [version, value = ""] = text.split(",");
    if (version === "v1") signatures.push(base64(value));
  }
  const keys = secrets.map((secret) => base64(secret.replace(/^whsec_/, "")));
  await check(stamp, `${header("webhook-id")}.${stamp}.`, body, signatures, keys, now);
}

/** Compares in constant time, and every signature with every key. */
async function check(stamp: string, prefix: string, body: Uint8Array, signatures: Uint8Array[], keys: Uint8Array<ArrayBuffer>[], now: number): Promise<void> {
  if (!/^\d{1,15}$/.test(stamp) || signatures.length === 0) throw new SignatureError("no_signature");
  const begin = utf8(prefix);
  const message = new Uint8Array(begin.length + body.length);
  message.set(begin);
  message.set(body, begin.length);
  let matches = false;
  for (const key of keys) {
    if (key.length === 0) continue; // anybody can sign with an empty key
    const hmac = await crypto.subtle.importKey("raw", key, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
    const wanted = new Uint8Array(await crypto.subtle.sign("HMAC", hmac, message));
    for (const signature of signatures) matches = equal(signature, wanted) || matches;
  }
  if (!matches) throw new SignatureError("bad_signature");
  if (Math.abs(now - 1000 * Number(stamp)) > tolerance) throw new SignatureError("timestamp");
}

function equal(a: Uint8Array, b: Uint8Array): boolean {
  let different = a.length ^ b.length;
  for (let i = 0; i < b.length; i++) different |= (a[i] ?? 0) ^ (b[i] ?? 0);
  return different === 0;
}

function utf8(text: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(text);
}

/** Nothing for what is not base64. */
function base64(text: string): Uint8Array<ArrayBuffer> {
  try {
    return Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  } catch {
    return new Uint8Array();
  }
}

/** Reads a header by its name in any case; empty if it is missing. */
function reader(headers: MessageHeaders): (name: string) => string {
  const all = headers instanceof Headers ? headers : new Headers(Object.entries(headers).flatMap(([name, value]) => (value === undefined ? [] : [[name, String(value)] as [string, string]])));
  return (name) => all.get(name) ?? "";
}

/** A message that a webhook sent. */
export interface Delivery {
  event: Event;
  /** The same on every attempt to deliver the event to this webhook. */
  id: string;
  /**
   * Where the event stands in the workspace's log; 0 if the message does not say. Messages arrive in
   * any order. To put them in order, keep the highest position that you have handled for each
   * object, and pass over a message with a lower one. To read the state that includes this event,
   * use Client.atLeast: any server then waits until it has it.
   */
  position: number;
}

export interface WebhookConfig extends VerifyOptions {
  /** The signing secrets: one, or several while you rotate or for several webhooks. */
  secrets: readonly string[];
  /**
   * Called once for each event. The service waits 10 seconds for the answer, so put the event into a
   * queue or a table if handling it takes longer. After an error the service sends the message again
   * later. An event can come twice if your program restarts between: to handle it exactly once, keep
   * its id in your database, in the transaction that handles it.
   */
  handle: (delivery: Delivery) => void | Promise<void>;
  /** Hears of messages that were refused or failed. */
  log?: (message: string, error: unknown) => void;
}

/**
 * Makes a receiver for servers that speak fetch, such as Deno.serve, Bun.serve and workers. It
 * answers 204 when an event is handled or was handled before, 400 if verify refuses the message, 500
 * if handle fails, and 503 if another attempt for the same event is being handled. The last 100,000
 * events are remembered.
 */
export function webhook(config: WebhookConfig): (request: Request) => Promise<Response> {
  if (config.secrets.length === 0) throw new TypeError("a receiver of webhooks needs secrets");
  const brand = config.brand ?? "SERVICE";
  const events = new Map<string, boolean>(); // by id, the oldest first: whether it is handled, or being handled
  const answer = (status: number, text: string) => new Response(text, { status });
  return async (request) => {
    if (request.method !== "POST") return new Response("want POST", { status: 405, headers: { Allow: "POST" } });
    let event: Event;
    try {
      const body = await readBody(request);
      await verify(request.headers, body, config.secrets, config);
      event = JSON.parse(new TextDecoder().decode(body)) as Event;
    } catch (error) {
      config.log?.("a webhook's message was refused", error);
      return answer(400, error instanceof Error ? error.message : "the message cannot be read");
    }
    const handled = events.get(event.id);
    if (handled === false) return answer(503, "another attempt for this event is being handled");
    if (handled === undefined) {
      events.set(event.id, false);
      const position = Number(request.headers.get(`${brand}-Log-Position`)) || 0;
      try {
        await config.handle({ event, id: request.headers.get(`${brand}-Delivery-Id`) ?? "", position });
      } catch (error) {
        events.delete(event.id);
        config.log?.(`the event ${event.id} of a webhook could not be handled`, error);
        return answer(500, "the event could not be handled");
      }
      events.set(event.id, true);
      for (const oldest of events.keys()) {
        if (events.size <= mostSeen) break;
        events.delete(oldest);
      }
    }
    return new Response(null, { status: 204 });
  };
}

async function readBody(request: Request): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  let size = 0;
  const reader = request.body?.getReader();
  for (;;) {
    const { value, done } = (await reader?.read()) ?? { value: undefined, done: true };
    if (done) return new Uint8Array(await new Blob(parts as BlobPart[]).arrayBuffer());
    if ((size += value.length) > maxMessage) throw new TypeError("the message is too long");
    parts.push(value);
  }
}
