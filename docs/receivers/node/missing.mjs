// What is missing: finds gaps in the numbers of messages and fetches their events.

// How many numbers after a gap are remembered. With more the gap is closed at once.
const MOST_AHEAD = 10_000;

// Follows the numbers of one webhook's messages. A real receiver keeps `expected` and
// `since` in its database, so that a gap that opens while it is not running is seen, too.
export class Missing {
  expected = null; // the lowest number that has not come
  since = null; // created_at of the event before it
  ahead = new Map(); // created_at of the events of higher numbers
  openSince = null; // when the gap was noticed

  constructor(api, key, waitSeconds, handle) {
    Object.assign(this, { api, key, wait: waitSeconds * 1000, handle });
  }

  // Notes a message. One without a number, such as a test ping, is no part of it.
  arrived(text, createdAt) {
    if (!/^\d+$/.test(text || "")) return;
    const number = Number(text);
    this.expected ??= number;
    if (number < this.expected) return;
    this.ahead.set(number, createdAt);
    this.#advance();
  }

  #advance() {
    let moved = false;
    for (; this.ahead.has(this.expected); this.expected++, moved = true) {
      this.since = this.ahead.get(this.expected);
      this.ahead.delete(this.expected);
    }
    if (this.ahead.size === 0) this.openSince = null;
    else if (moved || this.openSince === null) this.openSince = performance.now();
  }

  // Fetches what a gap hides once it has stayed for the wait. Never returns.
  async watch() {
    for (;;) {
      await new Promise((next) => setTimeout(next, Math.min(this.wait, 1000)));
      try {
        await this.#closeGap();
      } catch (error) {
        console.log("cannot fetch what is missing:", error.message); // tried again
      }
    }
  }

  async #closeGap() {
    if (this.openSince === null) return;
    if (performance.now() - this.openSince < this.wait && this.ahead.size < MOST_AHEAD) return;
    let [highest, since, until] = [0, this.since, ""];
    for (const [number, at] of this.ahead) {
      if (number > highest) highest = number;
      if (at < since) since = at; // an event that was sent as missed is older than the one before it
      if (at > until) until = at;
    }
    for await (const event of this.#events(since)) {
      if (event.created_at > until) break;
      this.handle(event); // which leaves out those that it has handled
    }
    for (const number of this.ahead.keys()) if (number <= highest) this.ahead.delete(number);
    this.expected = highest + 1;
    this.since = until;
    this.#advance();
  }

  // The events published since a time, a page at a time.
  async *#events(since) {
    const query = { created_since: since, limit: "100" };
    for (;;) {
      const answer = await fetch(`${this.api}/v1/events?${new URLSearchParams(query)}`, {
        headers: { authorization: `Bearer ${this.key}` },
        signal: AbortSignal.timeout(30_000),
      });
      if (!answer.ok) throw new Error(`/v1/events answered ${answer.status}`);
      const page = await answer.json();
      yield* page.data;
      if (!page.has_more) return;
      query.cursor = page.next_cursor; // belongs to the other parameters
    }
  }
}
