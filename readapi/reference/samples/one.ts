const response = await fetch("{{.URL}}", {
  headers: { Authorization: `Bearer ${process.env.API_KEY}` },
});
if (!response.ok) throw new Error(await response.text());

console.log(JSON.stringify(await response.json(), null, 2));
