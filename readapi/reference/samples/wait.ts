import { setTimeout } from "node:timers/promises";

const until = Date.now() + 1000 * Number(process.env.SECONDS_TO_RUN ?? 60);
const query = new URLSearchParams({ created_since: new Date().toISOString() });
while (Date.now() < until) {
  const response = await fetch(`{{.URL}}?${query}`, {
    headers: { Authorization: `Bearer ${process.env.API_KEY}`, Prefer: "wait=30" },
    signal: AbortSignal.timeout(45_000),
  });
  if (response.status === 429 || response.status === 503) {
    await setTimeout(1000 * Number(response.headers.get("Retry-After")));
    continue;
  }
  if (!response.ok) throw new Error(await response.text());

  const page = await response.json();
  for (const event of page.data) console.log(event.created_at, event.type, event.data.object_id);
  query.set("cursor", page.next_cursor);
  if (!response.headers.has("Preference-Applied")) await setTimeout(5000); // too many requests of this key wait
}
