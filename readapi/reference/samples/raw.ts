const response = await fetch("{{.URL}}", {
  headers: { Authorization: `Bearer ${process.env.API_KEY}` },
});
if (!response.ok) throw new Error(await response.text());

process.stdout.write(new Uint8Array(await response.arrayBuffer()));
