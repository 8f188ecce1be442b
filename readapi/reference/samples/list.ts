const response = await fetch("{{.URL}}", {
  headers: { Authorization: `Bearer ${process.env.API_KEY}` },
});
if (!response.ok) throw new Error(await response.text());

const page = await response.json();
for (const row of page.data) console.log(JSON.stringify(row));
console.log("next_cursor:", page.next_cursor);
