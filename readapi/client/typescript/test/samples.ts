// The samples of README.md. A test runs them against a small workspace and compares what they print.
import { add, ApiError, BrokenOffError, Client, codeOf, loadOnly, SignatureError, verify, webhook } from "@ledgerfeed/client";
import { fileState } from "@ledgerfeed/client/file";

const api = new Client({
  url: process.env.API_URL ?? "https://api.example.com",
  key: process.env.API_KEY ?? "",
  retryFor: 5 * 60_000, // how long one call goes on trying, in milliseconds
  cacheEntries: 1000, // do not transfer again what has not changed
  userAgent: "acme-reports/1.0",
});

console.log("== lists");
let due = "0";
for await (const invoice of api.invoices.rows({ open: true, date_from: "2026-10-01", date_to: "2026-10-31" })) {
  console.log(invoice.number, invoice.net_due, invoice.currency);
  due = add(due, invoice.net_due); // exact
}
console.log("in all", due);

console.log("== pages");
for await (const page of api.invoices.pages({ limit: 1 })) {
  console.log(page.rows.length, "row at position", page.position, "and more:", page.more);
}

console.log("== follow");
const hours = new Map<string, string>(); // a copy of the list
const state = fileState("time-entries.cursor");
// Without once, the loop waits for more, for as long as the program runs.
for await (const page of api.timeEntries.follow(state, {}, { startAgain: true, once: true })) {
  if (page.restarted) hours.clear(); // what the service has lost comes in no page
  for (const row of page.rows) hours.set(row.id, row.hours);
  for (const gone of page.removed) hours.delete(gone.id);
} // after each page, the state is saved
console.log(hours);

console.log("== follow in a transaction");
const database = { cursor: "", events: [] as string[] }; // stands for your own
const place = loadOnly(() => database.cursor);
for await (const page of api.events.follow(place, {}, { once: true })) {
  // In one transaction: either both are saved, or neither is.
  database.events.push(...page.rows.map((event) => event.type));
  database.cursor = page.cursor;
}
console.log(database.events.join(" "));

console.log("== whole");
const whole = api.invoices.whole();
let count = 0;
try {
  for await (const invoice of whole) count += invoice.reversed ? 0 : 1;
  console.log(count, "invoices, to go on from a cursor:", whole.cursor !== undefined);
} catch (error) {
  if (error instanceof BrokenOffError) console.error("rows are missing: read the list again");
  else throw error;
}

console.log("== totals");
const totals = await api.invoices.totals({ open: true }, ["client"]);
for (const sum of totals.data) console.log(sum.client?.name, sum.count, sum.net_due, sum.currency);

console.log("== errors");
try {
  await api.invoices.get("in_404");
} catch (error) {
  if (codeOf(error) === "not_found") console.log("there is no such invoice");
  else if (error instanceof ApiError) console.error(error.status, error.requestId, error.parameters);
  else throw error;
}

console.log("== webhooks");
const secret = process.env.WEBHOOK_SECRET ?? "";
const receive = webhook({
  secrets: [secret], // while you rotate it, the new one and the old one
  handle: async ({ event, position }) => {
    console.log(event.type, event.data.object_id, "at position", position);
    // If this fails, the service sends the message again.
    const invoice = await api.atLeast(position).invoices.get(event.data.object_id);
    console.log(invoice.client_billing_status);
  },
});

console.log("== verify");
async function isGenuine(headers: Headers, rawBody: string): Promise<boolean> {
  try {
    await verify(headers, rawBody, [secret]);
    return true;
  } catch (error) {
    if (error instanceof SignatureError) return false;
    throw error;
  }
}

const body = JSON.stringify({ id: "evt_1", type: "invoice.sent", created_at: new Date(), data: { object_type: "invoice", object_id: "in_1" } });
const stamp = Math.floor(Date.now() / 1000);
const key = await crypto.subtle.importKey("raw", new TextEncoder().encode(secret), { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
const signature = Buffer.from(await crypto.subtle.sign("HMAC", key, new TextEncoder().encode(`${stamp}.${body}`))).toString("hex");
const headers = new Headers({ "SERVICE-Signature": `t=${stamp},v1=${signature}`, "SERVICE-Log-Position": "7" });
for (let i = 0; i < 2; i++) { // the second time it is not handled again
  console.log((await receive(new Request("http://localhost/hook", { method: "POST", headers, body }))).status);
}
console.log(await isGenuine(headers, body), await isGenuine(headers, `${body} `));
