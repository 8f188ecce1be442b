// What is missing: finds gaps in the numbers of messages and fetches their events.

// How many numbers after a gap are remembered. With more the gap is closed at once.
// A number that is further ahead than this is not believed: it is not signed.
const MOST_AHEAD = 10_000;

// How long the service keeps events, in milliseconds.
const RETENTION = 30 * 24 * 3600 * 1000;

// Follows the numbers of one webhook's messages. A real receiver keeps `expected` and
// `since` in its database, so that a gap that opens while it is not running is seen, too.
export class Missing {
  since = null; // created_at of the event before the expected one; null: not known
  ahead = new Map(); // created_at of the events of higher numbers
  highest = 0; // the highest number that came, also if ahead was full
  highestAt = null; // created_at of its event
  oldest = null; // the least created_at that ahead had no room for; null: it had
  openSince = null; // when the gap was noticed

  // Expected is the lowest number that has not come; null: the first that comes.
  constructor(api, key, waitSeconds, expected, handle) {
    Object.assign(this, { api, key, wait: waitSeconds * 1000, expected, handle });
  }

  // Notes a message. One without a number, such as a test ping, is no part of it.
  arrived(text, createdAt) {
    if (!this.api || !/^[1-9][0-9]{0,14}$/.test(text || "")) return;
    const number = Number(text);
    this.expected ??= number;
    const known = Math.max(this.highest, this.expected - 1);
    if (number > known + MOST_AHEAD) {
      console.log(`message ${number} is too far ahead of ${known}: ignored`);
      return;
    }
    if (number < this.expected) return;
    if (number > this.highest) [this.highest, this.highestAt] = [number, createdAt];
    if (this.ahead.size < MOST_AHEAD || number === this.expected) this.ahead.set(number, createdAt);
    else if (this.oldest === null || createdAt < this.oldest) this.oldest = createdAt;
    this.#advance();
  }

  #advance() {
    let moved = false;
    for (; this.ahead.has(this.expected); this.expected++, moved = true) {
      this.since = this.ahead.get(this.expected);
      this.ahead.delete(this.expected);
    }
    if (this.expected > this.highest) this.openSince = this.oldest = null;
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
    let { highest, highestAt, since } = this;
    let older = this.oldest !== null && this.oldest < since;
    for (const at of this.ahead.values()) older ||= at < since;
    if (older || since === null) {
      // Events that were sent as missed are older than the one before the gap, and the
      // missing ones can be older still.
      since = new Date(Date.now() - RETENTION).toISOString();
    }
    // To the end, because numbers are not in the order of time.
    for await (const event of this.#events(since)) {
      this.handle(event); // which leaves out those that it has handled
    }
    if (this.expected > highest) return; // late messages closed the gap meanwhile
    for (const number of this.ahead.keys()) if (number <= highest) this.ahead.delete(number);
    [this.expected, this.since, this.openSince] = [highest + 1, highestAt, null];
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
