// Does the tasks of the server that this page comes from, in a browser.
import type { State } from "../src/index.js";
import { perform, type Input } from "./tasks.js";

for (;;) {
  const task = (await (await fetch("/task")).json()) as Input & { result: string };
  void done(task);
}

async function done(task: Input & { result: string }): Promise<void> {
  await fetch(task.result, { method: "POST", body: JSON.stringify(await perform(task, stateAt)) });
}

function stateAt(name: string): State {
  const place = `/state?${new URLSearchParams({ name }).toString()}`;
  return {
    load: async () => (await fetch(place)).text(),
    save: async (cursor) => void (await fetch(place, { method: "PUT", body: cursor })),
  };
}
