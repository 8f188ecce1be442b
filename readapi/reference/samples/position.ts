import { setTimeout } from "node:timers/promises";

const position = process.env.POSITION ?? "1"; // that appending has returned
let response;
for (let wait = 1; ; wait *= 2) {
  response = await fetch("{{.URL}}?limit=10", {
    headers: { Authorization: `Bearer ${process.env.API_KEY}`, "Log-Position-At-Least": position },
  });
  if (![429, 503].includes(response.status) || wait > 8) break;
  await setTimeout(1000 * Math.max(wait, Number(response.headers.get("Retry-After"))));
}
if (!response.ok) throw new Error(await response.text());

const page = await response.json();
console.log(page.data.length, "rows at position", response.headers.get("Log-Position"));
