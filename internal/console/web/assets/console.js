// Every page works without this file.
"use strict";

// The name of the reader's zone, such as EST or GMT+1.
const zone = new Intl.DateTimeFormat(undefined, { timeZoneName: "short" }).formatToParts(new Date()).find((part) => part.type === "timeZoneName").value;

// The server's time, as its page had it, and what has passed since.
const now = () => new Date(Date.parse(document.body.dataset.now) + performance.now());

const day = { month: "short", day: "numeric" };
const minute = { ...day, hour: "numeric", minute: "2-digit" };
const second = { ...minute, second: "2-digit" };

// A time in the reader's zone. Only another year is named.
function local(at, form) {
  const year = at.getFullYear() === now().getFullYear() ? {} : { year: "numeric" };
  return new Intl.DateTimeFormat(undefined, { ...form, ...year }).format(at);
}

// How far a time is from now, as When in label.go says it.
function when(at) {
  const passed = Math.trunc((now() - at) / 1000);
  const minutes = Math.max(1, Math.floor(Math.abs(passed) / 60));
  if (passed > -5 && passed < 60) return "now";
  if (minutes >= 7 * 24 * 60) return local(at, day);
  const days = Math.floor(minutes / 1440);
  let far = `${days} ${days === 1 ? "day" : "days"}`;
  if (minutes < 60) far = `${minutes} min`;
  else if (minutes < 1440) far = `${Math.floor(minutes / 60)} h`;
  return passed > 0 ? `${far} ago` : `in ${far}`;
}

function distances() {
  for (const element of document.querySelectorAll("time[data-form=when]")) element.textContent = when(new Date(element.dateTime));
}
setInterval(distances, 20000);

// Times in the reader's zone; the title has the exact one there and in UTC.
function localTimes(root) {
  for (const element of root.querySelectorAll("time[datetime]")) {
    const at = new Date(element.dateTime);
    if (element.dataset.form !== "when") element.textContent = local(at, element.dataset.form === "second" ? second : minute);
    element.title = `${local(at, { ...second, timeZoneName: "short" })} · ${element.title}`;
  }
  distances();
  for (const element of root.querySelectorAll("[data-clock]")) {
    const at = new Date(element.dataset.clock);
    element.textContent = new Intl.DateTimeFormat(undefined, { hour: "numeric", minute: "2-digit" }).format(at);
  }
  for (const element of root.querySelectorAll("[data-zone-name]")) element.textContent = zone;
  for (const element of root.querySelectorAll("[data-reading]")) {
    const at = local(new Date(element.dataset.reading), { ...minute, timeZoneName: "short" });
    element.textContent = element.textContent.replace(/^(.*? UTC)/, (utc) => `${at} (${utc})`);
  }
}

// Moments are typed in the reader's zone, and sent in UTC.
function localInputs(root) {
  for (const input of root.querySelectorAll("input[data-utc]")) {
    const sent = document.createElement("input");
    sent.type = "hidden";
    sent.name = input.name;
    sent.value = input.dataset.utc;
    input.removeAttribute("name");
    input.after(sent);
    if (input.dataset.utc) {
      const at = new Date(input.dataset.utc);
      input.value = new Date(at - at.getTimezoneOffset() * 60000).toISOString().slice(0, 16);
    }
    input.addEventListener("input", () => {
      if (input.value) sent.value = new Date(input.value).toISOString();
      else if (!input.required) sent.value = "";
    });
  }
}

// A cell of a list that is cut off shows all of its text on hover and on focus.
for (const reached of ["mouseover", "focusin"]) {
  document.addEventListener(reached, (event) => {
    const cell = event.target.closest(".rows :is(th, td)");
    if (cell && !cell.title && cell.scrollWidth > cell.clientWidth) cell.title = cell.innerText;
  });
}

// What has just been done, for screen readers.
function say(text) {
  let said = document.getElementById("said");
  if (!said) {
    said = document.createElement("p");
    said.id = "said";
    said.className = "visually-hidden";
    said.setAttribute("role", "status");
    document.querySelector("main").append(said);
  }
  said.textContent = "";
  setTimeout(() => { said.textContent = text; }, 50);
}

// A button copies the element that it names, or the one before it.
function copyButtons(root) {
  for (const button of root.querySelectorAll("[data-copy]")) {
    if (!navigator.clipboard) continue;
    button.hidden = false;
    const label = [...button.childNodes];
    button.addEventListener("click", async () => {
      const source = button.dataset.copy ? document.querySelector(button.dataset.copy) : button.previousElementSibling;
      try {
        await navigator.clipboard.writeText(source.textContent.trim());
        button.textContent = "Copied";
        say("Copied");
      } catch {
        getSelection().selectAllChildren(source);
        button.textContent = "Press Ctrl+C";
      }
      setTimeout(() => { button.replaceChildren(...label); }, 2000);
    });
  }
}

// Ticking a permission that needs another ticks both; clearing the other clears both.
function permissions(root) {
  for (const box of root.querySelectorAll("[data-switches-on]")) {
    const other = root.querySelector(`input[value="${CSS.escape(box.dataset.switchesOn)}"]`);
    box.addEventListener("change", () => { if (box.checked) other.checked = true; });
    other.addEventListener("change", () => { if (!other.checked) box.checked = false; });
  }
}

// Choosing a type also chooses "only these". Choosing "all" hides the types.
function eventTypes(root) {
  const some = root.querySelector("[data-reveals]");
  if (!some) return;
  const types = root.querySelector(some.dataset.reveals);
  const show = () => { types.hidden = !some.checked; };
  for (const radio of root.querySelectorAll(`input[name="${some.name}"]`)) radio.addEventListener("change", show);
  show();
}

// The address of a page that shows a secret becomes one that can be loaded again
// without sending the form again.
function leaveNoForm(root) {
  const page = root.querySelector("[data-address]");
  if (page) history.replaceState(null, "", page.dataset.address);
}

// Updates can be paused, and pause by themselves while the page is hidden.
let paused = false;
function pauseButtons(root) {
  for (const button of root.querySelectorAll("[data-pause]")) {
    button.hidden = false;
    const show = () => {
      button.textContent = paused ? "Resume updates" : "Pause updates";
      button.setAttribute("aria-pressed", String(paused));
    };
    show();
    button.addEventListener("click", () => { paused = !paused; show(); });
  }
}

// A form is sent only once, however often its button is pressed.
function onceOnly(root) {
  for (const form of root.querySelectorAll('form[method="post"]')) {
    form.addEventListener("submit", () => {
      const button = form.querySelector("button:not([type=button])");
      if (button) setTimeout(() => { button.disabled = true; button.setAttribute("aria-busy", "true"); });
    });
  }
}
addEventListener("pageshow", (event) => {
  if (!event.persisted) return;
  for (const button of document.querySelectorAll("button[aria-busy]")) {
    button.disabled = false;
    button.removeAttribute("aria-busy");
  }
});

function prepare(root) {
  for (const step of [localTimes, localInputs, copyButtons, permissions, eventTypes, pauseButtons, onceOnly]) step(root);
}

document.body.addEventListener("htmx:beforeRequest", (event) => {
  const renews = (event.detail.elt.getAttribute("hx-trigger") || "").startsWith("every");
  const chosen = event.detail.elt.querySelector("input:checked"); // a new list would not have it
  if (renews && (paused || document.hidden || chosen)) event.preventDefault();
});
document.body.addEventListener("htmx:afterSwap", (event) => {
  const swapped = document.getElementById(event.detail.target.id) || event.detail.target;
  prepare(swapped);
});

prepare(document);
leaveNoForm(document);
