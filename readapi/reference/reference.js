"use strict";
// The search and the mark of the current section. The page is whole without them.
(() => {
  const links = [...document.querySelectorAll("nav [data-menu] a")];
  const byID = new Map(links.map((a) => [a.hash.slice(1), a]));
  const mark = (id) => {
    if (!byID.has(id)) return;
    for (const a of links) a.removeAttribute("aria-current");
    byID.get(id).setAttribute("aria-current", "true");
  };
  const seen = new Set();
  const watch = new IntersectionObserver((entries) => {
    for (const e of entries) e.isIntersecting ? seen.add(e.target.id) : seen.delete(e.target.id);
    const first = links.find((a) => seen.has(a.hash.slice(1)));
    if (first) mark(first.hash.slice(1));
  }, { rootMargin: "0px 0px -60% 0px" });
  for (const id of byID.keys()) {
    const section = document.getElementById(id);
    if (section) watch.observe(section);
  }
  addEventListener("hashchange", () => mark(location.hash.slice(1)));

  const words = [...document.querySelectorAll("main [data-find]")].map((e) => ({
    id: e.id, name: e.dataset.find, text: (e.dataset.find + " " + e.textContent).toLowerCase(),
  }));
  const form = document.getElementById("search");
  const input = form.querySelector("input");
  const found = document.getElementById("found");
  const menu = document.querySelector("nav [data-menu]");
  form.hidden = false;
  const search = () => {
    const wanted = input.value.trim().toLowerCase();
    found.replaceChildren();
    found.hidden = menu.hidden = wanted !== "";
    found.hidden = wanted === "";
    if (wanted === "") return;
    const rank = (w) => w.name.toLowerCase() === wanted ? 0 : w.name.toLowerCase().includes(wanted) ? 1 : 2;
    const hits = words.filter((w) => w.text.includes(wanted)).sort((a, b) => rank(a) - rank(b)).slice(0, 30);
    const list = document.createElement("ul");
    for (const hit of hits) {
      const a = document.createElement("a");
      a.href = "#" + hit.id;
      a.textContent = hit.name;
      list.append(document.createElement("li"));
      list.lastChild.append(a);
    }
    const says = document.createElement("p");
    says.className = "muted";
    says.textContent = hits.length === 0 ? "Nothing has these words." : hits.length === 1 ? "1 place" : hits.length + " places";
    found.append(says, list);
  };
  input.addEventListener("input", search);
  form.addEventListener("submit", (e) => {
    e.preventDefault();
    const first = found.querySelector("a");
    if (first) location.hash = first.hash;
  });
})();
