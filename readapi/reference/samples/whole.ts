import { existsSync, readFileSync, writeFileSync } from "node:fs";

const query = new URLSearchParams({ include: "removed" });
if (existsSync("cursor.txt")) query.set("cursor", readFileSync("cursor.txt", "utf8"));
const response = await fetch(`{{.URL}}?${query}`, {
  headers: {
    Accept: "application/x-ndjson",
    Authorization: `Bearer ${process.env.API_KEY}`,
  },
});
if (!response.ok) throw new Error(await response.text());

let rest = "";
let end;
// As it comes: the list is never in memory as a whole.
for await (const chunk of response.body.pipeThrough(new TextDecoderStream())) {
  const lines = (rest + chunk).split("\n");
  rest = lines.pop();
  for (const line of lines) {
    const row = JSON.parse(line);
    if (row.next_cursor) end = row;
    else console.log(row.removed ? "removed" : "changed", row.id);
  }
}
if (!end) throw new Error("the list was broken off: start again from the cursor that you have");
writeFileSync("cursor.txt", end.next_cursor); // after the rows are safe
console.log("the list goes on at", end.next_cursor);
