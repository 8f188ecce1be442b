// A client as a stranger would write it: types generated from the description,
// compiled strictly, following lists and events of a running service.
import createClient from "openapi-fetch";
import type { paths } from "./generated/api.js";

const [base, key, keyWithoutPay] = process.argv.slice(2);
if (base === undefined || key === undefined || keyWithoutPay === undefined) {
  throw new Error("usage: client BASE KEY KEY-WITHOUT-PAY");
}

const api = (bearer: string) =>
  createClient<paths>({ baseUrl: base, headers: { Authorization: `Bearer ${bearer}` } });

function check(condition: boolean, what: string): asserts condition {
  if (!condition) throw new Error(what);
}

interface Page<Row> {
  data: Row[];
  has_more: boolean;
  next_cursor: string;
}

// follow reads a list to its end and returns its rows and the cursor there.
async function follow<Row>(page: (cursor?: string) => Promise<Page<Row>>): Promise<{ rows: Row[]; cursor: string }> {
  const rows: Row[] = [];
  let cursor: string | undefined;
  for (;;) {
    const p = await page(cursor);
    rows.push(...p.data);
    cursor = p.next_cursor;
    if (!p.has_more) return { rows, cursor };
  }
}

function given<T>(answer: { data?: T; error?: unknown; response: Response }): T {
  if (answer.data === undefined) {
    throw new Error(`${answer.response.url}: ${answer.response.status} ${JSON.stringify(answer.error)}`);
  }
  return answer.data;
}

const all = api(key);

const me = given(await all.GET("/v1/me"));
check(me.scopes.includes("pay:read"), "the first key may read pay");

const invoices = await follow(async (cursor) =>
  given(await all.GET("/v1/invoices", { params: { query: { limit: 100, ...(cursor === undefined ? {} : { cursor }) } } })),
);
check(invoices.rows.length > 0, "there are invoices");
const seen = new Map(invoices.rows.map((row) => [row.id, row]));
check(seen.size === invoices.rows.length, "no invoice comes twice");
const cents = (money: string): bigint => BigInt(money.replace(".", ""));
for (const invoice of invoices.rows) {
  check(invoice.margin_amount !== undefined, "margin is there for a key that may see it");
  const due = cents(invoice.gross_amount) - cents(invoice.credit_applied);
  check(invoice.type === "credit_note" || cents(invoice.net_due) === (due < 0n ? 0n : due), `net_due of ${invoice.id}`);
}

const events = await follow(async (cursor) =>
  given(await all.GET("/v1/events", { params: { query: { limit: 100, ...(cursor === undefined ? {} : { cursor }) } } })),
);
check(events.rows.length > 0, "there are events");
const again = given(await all.GET("/v1/events", { params: { query: { limit: 100, cursor: events.cursor } } }));
check(again.data.every((e) => !events.rows.some((o) => o.id === e.id)), "no event comes twice");

for (const entry of given(await all.GET("/v1/time-entries", { params: { query: { limit: 20, status: "approved" } } })).data) {
  check(!("removed" in entry) && entry.status === "approved", "the filter holds, and no removed row comes unasked");
}

const less = api(keyWithoutPay);
for (const invoice of given(await less.GET("/v1/invoices", { params: { query: { limit: 100 } } })).data) {
  check(invoice.payout_amount === undefined && invoice.margin_amount === undefined, "what a key may not see is absent");
}
check(!(await follow(async (cursor) =>
  given(await less.GET("/v1/events", { params: { query: { limit: 100, ...(cursor === undefined ? {} : { cursor }) } } })),
)).rows.some((e) => e.type === "payout.paid"), "payouts are not in the feed of a key without pay");

const wrong = await all.GET("/v1/invoices/{id}", { params: { path: { id: "in_nobody" } } });
check(wrong.response.status === 404 && wrong.error !== undefined && wrong.error.request_id.length > 0, "a problem document for an unknown id");

console.log(`${invoices.rows.length} invoices and ${events.rows.length} events, followed to the end`);
