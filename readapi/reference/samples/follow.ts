import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { setTimeout } from "node:timers/promises";

async function read(query) {
  for (let wait = 1; ; wait = Math.min(2 * wait, 60)) {
    let after = 0;
    const response = await fetch(`{{.URL}}?${query}`, {
      headers: { Authorization: `Bearer ${process.env.API_KEY}` },
      signal: AbortSignal.timeout(60_000),
    }).catch((error) => console.error("the connection broke:", error.message));
    if (response?.ok) {
      const page = await response.json().catch(() => console.error("the connection broke"));
      if (page) return page;
    } else if (response) {
      if (response.status !== 429 && response.status < 500) throw new Error(await response.text());
      after = Number(response.headers.get("Retry-After")) || 0;
    }
    // Twice as long each time, and a little more at random.
    await setTimeout(1000 * (Math.max(wait, after) + wait * Math.random()));
  }
}

let cursor = existsSync("cursor.txt") ? readFileSync("cursor.txt", "utf8") : "";
for (let more = true; more; ) {
  const query = new URLSearchParams({ limit: "100", include: "removed" });
  if (cursor) query.set("cursor", cursor);
  const page = await read(query);
  for (const row of page.data) console.log(row.removed ? "removed" : "changed", row.id);
  cursor = page.next_cursor;
  more = page.has_more;
  writeFileSync("cursor.txt", cursor); // after the rows are safe
}
