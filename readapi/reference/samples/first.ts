async function read(url) {
  const response = await fetch(url, { headers: { Authorization: `Bearer ${process.env.API_KEY}` } });
  if (!response.ok) throw new Error(await response.text());
  return response.json();
}

const [row] = (await read("{{.List}}?limit=1")).data; // or an id that you know
console.log(JSON.stringify(await read(`{{.Before}}${row.{{.Field}}}{{.After}}`), null, 2));
