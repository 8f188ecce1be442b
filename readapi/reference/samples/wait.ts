import { setTimeout } from "node:timers/promises";

const until = Date.now() + 1000 * Number(process.env.SECONDS_TO_RUN ?? 60);
const query = new URLSearchParams({ created_since: new Date().toISOString() });
let wait = 1;
while (Date.now() < until) {
  let page;
  let after = 0;
  const response = await fetch(`{{.URL}}?${query}`, {
    headers: { Authorization: `Bearer ${process.env.API_KEY}`, Prefer: "wait=30" },
    signal: AbortSignal.timeout(45_000),
  }).catch((error) => console.error("the connection broke:", error.message));
  if (response?.ok) {
    page = await response.json().catch(() => console.error("the connection broke"));
  } else if (response) {
    if (response.status !== 429 && response.status < 500) throw new Error(await response.text());
    after = Number(response.headers.get("Retry-After")) || 0;
  }
  if (!page) {
    // Twice as long each time, and a little more at random.
    await setTimeout(1000 * (Math.max(wait, after) + wait * Math.random()));
    wait = Math.min(2 * wait, 60);
    continue;
  }
  wait = 1;
  for (const event of page.data) console.log(event.created_at, event.type, event.data.object_id);
  query.set("cursor", page.next_cursor);
  if (!response.headers.has("Preference-Applied")) await setTimeout(5000); // too many requests of this key wait
}
