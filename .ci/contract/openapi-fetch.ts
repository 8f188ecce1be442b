// The scenario of all four clients (.ci/check-contract), with openapi-fetch and the types that
// openapi-typescript makes.
import createClient from "openapi-fetch";
import { args, check, typed } from "./check.js";
import type { paths } from "./generated/api.js";

const [base, key, limited] = args();
const connect = (bearer: string) => createClient<paths>({ baseUrl: base, headers: { Authorization: `Bearer ${bearer}` } });
const api = connect(key);

// A list, followed to its end.
let rows = 0;
let removed = 0;
const query: { limit: number; include: "removed"; cursor?: string } = { limit: 100, include: "removed" };
for (;;) {
  const { data, error, response } = await api.GET("/v1/charges", { params: { query } });
  if (error) throw new Error(error.detail);
  for (const row of data.data) {
    if ("removed" in row) {
      removed++;
      continue;
    }
    check(typed(row.amount) !== "" && typed(row.client.id) !== "", "a charge has an amount and a client");
    rows++;
  }
  check(data.has_more === response.headers.has("Link"), "Link is there while there is more");
  if (!data.has_more) break;
  query.cursor = data.next_cursor;
}
check(rows > 100 && removed > 0, `${rows} charges and ${removed} removed rows are more than a page`);

// Filters.
const paid = await api.GET("/v1/invoices", { params: { query: { status: "paid", date_from: "2025-01-01" } } });
check(paid.data !== undefined, "there are paid invoices");
for (const invoice of paid.data.data) {
  check(invoice.client_billing_status === "paid" && invoice.period_end >= "2025-01-01", `the filters hold for ${invoice.id}`);
}
const open = await api.GET("/v1/invoices", { params: { query: { open: "true" } } });
check(open.data !== undefined && open.data.data.length > 0, "there are open invoices");
check(open.data.data.every((invoice) => typed(invoice.net_due) !== "0.00" && !invoice.reversed), "they are open");

// An error.
const wrong = await api.GET("/v1/invoices", { params: { query: { date_from: "2026-02-01", date_to: "2026-01-01" } } });
check(wrong.response.status === 400 && wrong.error !== undefined, "a wrong range is a 400");
check(typed(wrong.error.code) === "invalid_parameter" && wrong.error.errors?.[0]?.field === "date_from", "both days are named");

// An answer that has not changed.
const id = paid.data.data[0]?.id;
check(id !== undefined, "there is a paid invoice");
const first = await api.GET("/v1/invoices/{id}", { params: { path: { id } } });
const etag = first.response.headers.get("ETag");
check(first.data?.id === id && etag !== null, "the invoice has an ETag");
const again = await api.GET("/v1/invoices/{id}", { params: { path: { id }, header: { "If-None-Match": etag } } });
check(again.response.status === 304 && again.data === undefined, "the invoice has not changed");

// A limit.
for (let i = 1; ; i++) {
  const { error, response } = await connect(limited).GET("/v1/me");
  if (error) {
    check(response.status === 429 && error.code === "rate_limited" && Number(response.headers.get("Retry-After")) > 0, "a 429 says when to try again");
    break;
  }
  check(i < 5, "the key's limit holds");
}

console.log(`openapi-fetch: ${rows} charges and ${removed} removed rows, filters, 400, 304 and 429`);
