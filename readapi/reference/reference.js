"use strict";
// The search, and addresses from when all of this was one page. Pages are whole without it.
(() => {
  const pages = [];
  const form = document.getElementById("search");
  const places = [];
  for (const page of pages) {
    const href = form.dataset.up + page.p;
    places.push({ href, id: page.p.split("/").pop().replace(".html", ""), name: page.t, of: "", text: (page.t + " " + page.w).toLowerCase() });
    const add = (id, name, field) => places.push({ href: href + "#" + id, id, name, of: page.t, field, text: name.toLowerCase() });
    for (const [id, name, ...fields] of page.m || []) {
      add(id, name);
      for (const field of fields) add(id + "." + field, field, true);
    }
  }

  // A part that is folded is opened. One that is on another page now is shown there.
  const show = () => {
    const id = decodeURIComponent(location.hash.slice(1));
    const part = document.getElementById(id);
    for (let e = part; e; e = e.parentElement) if (e.localName === "details") e.open = true;
    if (part) part.scrollIntoView();
    const place = places.find((p) => p.id === id);
    if (id && !part && place) location.replace(place.href);
  };
  const menu = document.getElementById("contents");
  const here = menu.querySelector("[aria-current]");
  if (here) menu.scrollTop = here.offsetTop - menu.offsetTop - menu.clientHeight / 2;

  const input = form.querySelector("input");
  const found = document.getElementById("found");
  form.hidden = false;
  input.addEventListener("input", () => {
    const wanted = input.value.trim().toLowerCase();
    const words = wanted.split(/\s+/);
    found.replaceChildren();
    menu.hidden = wanted !== "";
    found.hidden = wanted === "";
    if (wanted === "") return;
    const rank = (p, name = p.name.toLowerCase()) =>
      !p.field && name.startsWith(wanted) ? 0 : name === wanted ? 1 : name.includes(wanted) ? 2 : 3;
    const hits = places.filter((p) => words.every((w) => p.text.includes(w))).sort((a, b) => rank(a) - rank(b)).slice(0, 30);
    const list = document.createElement("ul");
    for (const hit of hits) {
      const a = document.createElement("a");
      a.href = hit.href;
      a.textContent = hit.name;
      if (hit.of) a.append(Object.assign(document.createElement("small"), { textContent: hit.of }));
      list.append(document.createElement("li"));
      list.lastChild.append(a);
    }
    const says = document.createElement("p");
    says.className = "muted";
    says.textContent = hits.length === 0 ? "Nothing has these words." : hits.length === 1 ? "1 place" : hits.length + " places";
    found.append(says, list);
  });
  form.addEventListener("submit", (e) => {
    e.preventDefault();
    const first = found.querySelector("a");
    if (first) location.href = first.href;
  });

  addEventListener("hashchange", show);
  if (location.hash) show();
})();
