// What the scenarios cannot show: answers that this service does not give, and times.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ApiError, BrokenOffError, Client, codeOf, loadOnly, verify, webhook, type ClientConfig, type Delivery, type State } from "../src/index.js";

type Reply = (request: Request) => Response | Promise<Response>;

/** A Client whose requests get these replies in turn, the last one for ever. */
function connect(replies: Reply[], config: Partial<ClientConfig> = {}) {
  const requests: Request[] = [];
  const waits: number[] = [];
  let now = 0;
  const api = new Client({
    url: "https://api.example.com",
    key: "k",
    random: () => 0.5,
    now: () => now,
    sleep: async (time) => {
      waits.push(time);
      now += time;
    },
    fetch: async (url, init) => {
      const request = new Request(url as string, init);
      requests.push(request);
      return (replies[Math.min(requests.length, replies.length) - 1] as Reply)(request);
    },
    ...config,
  });
  return { api, requests, waits };
}

const reply = (status: number, body = "", headers: Record<string, string> = {}): Reply => () =>
  new Response(status === 304 ? null : body, { status, headers });
const noRows = '{"data":[],"has_more":false,"next_cursor":"c"}';

async function drained<T>(list: AsyncIterable<T>): Promise<T[]> {
  const rows: T[] = [];
  for await (const row of list) rows.push(row);
  return rows;
}

test("waits grow up to a bound and end after two minutes", async () => {
  const { api, waits } = connect([reply(503)]);
  await assert.rejects(drained(api.invoices.rows()), (error) => error instanceof ApiError && error.status === 503);
  assert.deepEqual(waits, [750, 1500, 3000, 6000, 12000, 22500, 22500, 22500, 22500]);
});

test("Retry-After may be a date", async () => {
  const { api, waits } = connect([reply(503, "", { "Retry-After": "Thu, 01 Jan 1970 00:00:07 GMT" }), reply(200, noRows)]);
  await drained(api.invoices.rows());
  assert.deepEqual(waits, [7250]);
});

test("an untrusted certificate is not tried again", async () => {
  const { api, requests } = connect([() => Promise.reject(new TypeError("fetch failed", { cause: { code: "CERT_HAS_EXPIRED" } }))]);
  await assert.rejects(api.me(), TypeError);
  assert.equal(requests.length, 1);
});

test("a caller's signal ends a call with its reason", async () => {
  const controller = new AbortController();
  const { api, requests } = connect([reply(503)], { sleep: async () => controller.abort(new Error("enough")) });
  await assert.rejects(api.me({ signal: controller.signal }), /enough/);
  assert.equal(requests.length, 1);
});

test("errors have all that the problem document says", async () => {
  const problem = { code: "cursor_invalid", detail: "In words.", errors: [{ field: "cursor", message: "is old" }] };
  const { api } = connect([reply(400, JSON.stringify(problem), { "X-Request-Id": "req_1" }), reply(403, "<html>")]);
  const first = await api.invoices.get("a/b").catch((error: unknown) => error);
  assert.equal(codeOf(first), "cursor_invalid");
  assert.match(String(first), /\/v1\/invoices\/a%2Fb answered 400 cursor_invalid: In words\. cursor: is old\. \(request req_1\)$/);
  assert.equal(codeOf(await api.me().catch((error: unknown) => error)), undefined);
});

test("the workspace may move, but never to plain http", async () => {
  const moved = (to: string) => reply(503, JSON.stringify({ code: "unavailable", moved_to: to }));
  const good = connect([moved("https://there.example.com/"), reply(200, "{}")]);
  await good.api.me();
  assert.equal(good.requests[1]?.url, "https://there.example.com/v1/me");
  const bad = connect([moved("http://there.example.com")]);
  await assert.rejects(bad.api.me());
  assert.ok(bad.requests.every((r) => r.url.startsWith("https://api.example.com/")));
});

test("a key never travels in plain text", () => {
  for (const [url, good] of Object.entries({
    "https://api.example.com": true, "https://api.example.com/x/": true, "http://127.0.0.1:8080": true, "http://localhost:1": true, "http://[::1]:1": true,
    "http://api.example.com": false, "http://127.0.0.1.example.com": false, "api.example.com": false, "": false, "ftp://x": false, "https://u:p@x": false, "https://x?q": false,
  })) {
    const make = () => new Client({ url, key: "k" });
    if (good) make();
    else assert.throws(make, TypeError, url);
  }
});

test("the answers that were used last are kept", async () => {
  const { api, requests } = connect([(r) => new Response(r.headers.get("If-None-Match") ? null : JSON.stringify({ id: r.url }), { status: r.headers.get("If-None-Match") ? 304 : 200, headers: { ETag: '"1"' } })], { cacheEntries: 2 });
  for (const id of ["a", "a", "b", "a", "c", "a", "b"]) assert.match((await api.invoices.get(id)).id, new RegExp(`/${id}$`));
  assert.equal(requests.map((r) => r.url.slice(-1) + (r.headers.get("If-None-Match") ?? "")).join(" "), 'a a"1" b a"1" c a"1" b');
});

test("numbers keep their digits, and text that looks like one is left alone", async () => {
  const { api } = connect([reply(200, String.raw`{"hours": 7.50, "note":"\"hours\":1.0 and \\", "margin_percent":-12.345678901234567890, "billable_hours":null, "sessions":3}`)]);
  const row: unknown = await api.timeEntries.get("te_1");
  assert.deepEqual(row, { hours: "7.50", note: '"hours":1.0 and \\', margin_percent: "-12.345678901234567890", billable_hours: null, sessions: 3 });
});

test("what is not a list, or would never end, is an error", async () => {
  for (const body of ["{}", "null", '{"data":[],"has_more":true}', "<html>", '{"data":[],"has_more":true,"next_cursor":"same"}']) {
    await assert.rejects(drained(connect([reply(200, body)]).api.invoices.rows()), body);
  }
});

test("a whole list without its last line is an error", async () => {
  const row = '{"id":"in_1"}\n', last = '{"has_more":false,"next_cursor":"c"}\n';
  for (const [body, good] of Object.entries({ [row + last]: true, [last]: true, "": false, [row]: false, [row + last.slice(0, 20)]: false, [row + last + row]: false, "<html>": false })) {
    const whole = connect([reply(200, body)]).api.invoices.whole();
    if (good) await drained(whole);
    else await assert.rejects(drained(whole), BrokenOffError, body);
    assert.equal(whole.cursor, good ? "c" : undefined);
  }
});

test("an idle follower lets the service wait, and waits by itself if that does not", async () => {
  const { api, requests, waits } = connect([reply(200, noRows), reply(200, noRows, { "Preference-Applied": "wait=25" }), reply(200, noRows)]);
  let pages = 0;
  for await (const _ of api.invoices.follow(loadOnly(() => ""))) if (++pages === 4) break;
  assert.deepEqual(requests.map((r) => r.headers.get("Prefer")), [null, "wait=25", "wait=25", "wait=25"]);
  assert.deepEqual(waits, [4000]);
  assert.deepEqual(requests.slice(0, 2).map((r) => new URL(r.url).search), ["?include=removed", "?include=removed&cursor=c"]);
});

test("a place that cannot be saved ends the follower", async () => {
  const state: State = { load: () => "", save: () => Promise.reject(new Error("the disk is full")) };
  await assert.rejects(drained(connect([reply(200, noRows)]).api.invoices.follow(state)), /disk is full/);
});

async function signed(id: string): Promise<Request> {
  const body = JSON.stringify({ id, type: "invoice.paid", data: {} });
  const key = await crypto.subtle.importKey("raw", new TextEncoder().encode("secret"), { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  const mac = Buffer.from(await crypto.subtle.sign("HMAC", key, new TextEncoder().encode(`1.${body}`))).toString("hex");
  return new Request("http://localhost/hook", { method: "POST", body, headers: { "ACME-Signature": `t=1,v1=${mac}`, "ACME-Log-Position": "7" } });
}

test("a second attempt is sent away while the first one is handled, which may fail", async () => {
  const calls: Delivery[] = [];
  let fail = (_: Error) => {};
  const receive = webhook({
    secrets: ["secret"], brand: "ACME", now: () => 1000,
    handle: (d) => { calls.push(d); return calls.length === 1 ? new Promise<void>((_, reject) => { fail = reject; }) : undefined; },
  });
  const first = receive(await signed("evt_1"));
  while (calls.length === 0) await new Promise(setImmediate);
  assert.equal((await receive(await signed("evt_1"))).status, 503);
  fail(new Error("the queue is full"));
  assert.equal((await first).status, 500);
  assert.equal((await receive(await signed("evt_1"))).status, 204);
  assert.equal((await receive(await signed("evt_1"))).status, 204);
  assert.deepEqual(calls.map((d) => d.position), [7, 7]);
  assert.equal((await receive(new Request("http://localhost/hook", { method: "POST", body: " ".repeat(2 << 20) }))).status, 400);
});

test("headers may be those of Node's http", async () => {
  const request = await signed("evt_1");
  await verify(Object.fromEntries(request.headers), new Uint8Array(await request.arrayBuffer()), ["secret"], { brand: "ACME", now: () => 1000 });
});
