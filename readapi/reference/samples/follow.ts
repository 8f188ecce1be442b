import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { setTimeout } from "node:timers/promises";

let cursor = existsSync("cursor.txt") ? readFileSync("cursor.txt", "utf8") : "";
for (let more = true; more; ) {
  const query = new URLSearchParams({ limit: "100", include: "removed" });
  if (cursor) query.set("cursor", cursor);
  const response = await fetch(`{{.URL}}?${query}`, {
    headers: { Authorization: `Bearer ${process.env.API_KEY}` },
  });
  if (response.status === 429) {
    await setTimeout(1000 * Number(response.headers.get("Retry-After")));
    continue;
  }
  if (!response.ok) throw new Error(await response.text());

  const page = await response.json();
  for (const row of page.data) console.log(row.removed ? "removed" : "changed", row.id);
  cursor = page.next_cursor;
  more = page.has_more;
  writeFileSync("cursor.txt", cursor); // after the rows are safe
}
