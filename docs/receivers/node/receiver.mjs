// A receiver of webhooks in Node.js 18 or newer, without packages.
//
//   WEBHOOK_SECRET=whsec_… PORT=3000 node receiver.mjs
//
// It speaks plain HTTP: put whatever ends TLS for you in front of it.
import { createHmac, timingSafeEqual } from "node:crypto";
import { createServer } from "node:http";

const secret = process.env.WEBHOOK_SECRET;
const standard = process.env.WEBHOOK_STANDARD === "1"; // the headers of Standard Webhooks
const brand = process.env.WEBHOOK_BRAND || "SERVICE";
const port = Number(process.env.PORT || 3000);
if (!secret) {
  console.error("set WEBHOOK_SECRET to the webhook's signing secret");
  process.exit(1);
}

// How far, in seconds, a message's timestamp may be from our clock. It stops
// somebody who recorded a message from sending it again later.
const TOLERANCE = 300;

// Checks the signature header over the raw body, before any parsing. While a
// secret is rotated the header has several v1 values; one match is enough.
// Returns what is wrong, or null.
function fault(header, body, now) {
  const parts = (header || "").split(",").map((p) => p.trim().split("="));
  const stamp = parts.find(([name]) => name === "t")?.[1];
  if (!stamp || !/^\d+$/.test(stamp)) return "no timestamp";
  const want = createHmac("sha256", secret).update(`${stamp}.`).update(body).digest();
  let matches = false;
  for (const [name, value] of parts) {
    if (name !== "v1") continue;
    const got = Buffer.from(value || "", "hex");
    if (got.length === want.length && timingSafeEqual(got, want)) matches = true;
  }
  if (!matches) return "no signature matches";
  if (Math.abs(now - Number(stamp)) > TOLERANCE) return "the timestamp is too far from now";
  return null;
}

// The same for the headers of Standard Webhooks: the key is base64 after whsec_, and so
// are the signatures, which are separated by spaces.
function standardFault(headers, body, now) {
  const stamp = headers["webhook-timestamp"];
  if (!stamp || !/^\d+$/.test(stamp)) return "no timestamp";
  const key = Buffer.from(secret.slice("whsec_".length), "base64");
  const want = createHmac("sha256", key).update(`${headers["webhook-id"] || ""}.${stamp}.`).update(body).digest();
  let matches = false;
  for (const signature of (headers["webhook-signature"] || "").split(" ")) {
    const [version, value] = signature.split(",");
    if (version !== "v1") continue;
    const got = Buffer.from(value || "", "base64");
    if (got.length === want.length && timingSafeEqual(got, want)) matches = true;
  }
  if (!matches) return "no signature matches";
  if (Math.abs(now - Number(stamp)) > TOLERANCE) return "the timestamp is too far from now";
  return null;
}

// The same event can arrive twice. A real receiver keeps the ids in its
// database, in the transaction that handles the event; here the last ones.
const MOST_SEEN = 100_000;
const seen = new Set(); // the events that were handled

// Tells whether an id comes for the first time.
function first(ids, id) {
  if (ids.has(id)) return false;
  ids.add(id);
  if (ids.size > MOST_SEEN) ids.delete(ids.values().next().value); // the oldest
  return true;
}

// Handles an event once.
function handle(event) {
  if (!first(seen, event.id)) return;
  // Put it into a queue of your own here and answer at once: an answer
  // later than 10 seconds counts as a failure.
  console.log("event", event.id, event.type, event.data.object_type, event.data.object_id);
}

async function rawBody(request) {
  const chunks = [];
  let size = 0;
  for await (const chunk of request) {
    size += chunk.length;
    if (size > 1 << 20) throw new Error("more than 1 MiB");
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

createServer(async (request, response) => {
  try {
    const body = await rawBody(request);
    const now = Date.now() / 1000;
    const wrong = standard
      ? standardFault(request.headers, body, now)
      : fault(request.headers[`${brand.toLowerCase()}-signature`], body, now);
    if (wrong) {
      response.writeHead(400).end(wrong);
      return;
    }
    const event = JSON.parse(body);
    handle(event);
    response.writeHead(204).end();
  } catch (error) {
    response.writeHead(400).end(String(error.message));
  }
}).listen(port, "127.0.0.1");
