import { type ApiError, BrokenOffError, codeOf } from "./errors.js";
import { type CallOptions, type Http, parseJSON } from "./http.js";
import type { GroupBy, RemovedRow } from "./types.js";

/** How long the API is asked to hold its answer while nothing is new, in seconds. */
const idleWait = 25;
/** The pause if it does not hold its answer, in milliseconds. */
const unheldWait = 4_000;

/** A part of a list. */
export interface Page<Row> {
  rows: Row[];
  /**
   * Rows that were deleted or that the key may no longer see. Only followers and lists with
   * include: "removed" have them. A page has each id once, here or in rows.
   */
  removed: RemovedRow[];
  /** Goes on after this page. */
  cursor: string;
  /** There are rows after this page now. */
  more: boolean;
  /** The position of the log that the page shows; 0 if the answer does not say. */
  position: number;
  /**
   * Why a follower has begun again before this page. Empty your copy of the list before you take
   * this page over: not all rows of the copy come again.
   */
  restarted?: ApiError;
}

/** Keeps the place of one follower of one list with the same parameters. */
export interface State {
  /** The cursor that was saved last; undefined or empty: the follower begins at the start. */
  load(): string | undefined | Promise<string | undefined>;
  /** Keeps a cursor. It is called after the body of the loop has taken a page over. */
  save(cursor: string): void | Promise<void>;
}

/** A State for a caller who saves Page.cursor in the transaction in which he saves the rows. */
export function loadOnly(load: State["load"]): State {
  return { load, save: () => undefined };
}

/** Says how a follower goes on. */
export interface FollowOptions extends CallOptions {
  /**
   * Begins at the start of the list if the API no longer knows what the follower has missed: after
   * cursor_reset (the service was restored to an earlier state), cursor_permissions (the new key
   * sees more) or events_missed (the events are no longer kept). So does cursor_invalid of the cursor
   * that the State had: the workspace is at another installation, or the parameters are others. The
   * next page then has restarted. Otherwise the follower ends with that ApiError.
   */
  startAgain?: boolean;
  /** Ends the follower when there is nothing more, for a program that runs now and then. */
  once?: boolean;
}

type Params = object & { include?: "removed"; limit?: number };

/** A list of the API. Parameters that are missing are not sent. */
export class List<Row, P extends Params, Totals = never> {
  readonly #http: Http;
  readonly #path: string;
  readonly #removes: boolean;

  constructor(http: Http, path: string, removes: boolean) {
    this.#http = http;
    this.#path = path;
    this.#removes = removes;
  }

  /** Reads the rows as they are now, oldest change first, in the fewest requests. */
  async *rows(params?: P, options: CallOptions = {}): AsyncGenerator<Row, void, undefined> {
    for await (const page of this.pages({ limit: 100, ...params } as P, options)) yield* page.rows;
  }

  /** Reads the same in pages. */
  async *pages(params?: P, options: CallOptions = {}): AsyncGenerator<Page<Row>, void, undefined> {
    const query = queryOf(params);
    for (let cursor = ""; ; ) {
      const { page } = await this.#page(query, cursor, 0, options);
      yield page;
      if (!page.more) return;
      cursor = page.cursor;
    }
  }

  /**
   * Keeps a copy of the list up to date. It gives what has changed since the place in state, and
   * then waits for more, until the signal ends it or you leave the loop. The place is saved when the
   * body of the loop has ended and the loop goes on. So leave the loop by break or an error when you
   * could not take a page over: the next run gets that page again.
   *
   * A page without rows says that nothing is new. Follow without filters that a row can stop
   * matching: no page would tell you.
   */
  async *follow(state: State, params?: P, options: FollowOptions = {}): AsyncGenerator<Page<Row>, void, undefined> {
    const query = queryOf(this.#removes ? { ...params, include: "removed" } : params);
    let cursor = (await state.load()) ?? "";
    let kept = true; // the cursor is the one that the state had
    let wait = 0; // until the end is reached
    let restarted: ApiError | undefined;
    for (;;) {
      let answer;
      try {
        answer = await this.#page(query, cursor, wait, options);
      } catch (error) {
        if (!isLostPlace(error, kept) || !options.startAgain || cursor === "") throw error;
        this.#http.log(`a follower of ${this.#path} begins again at the start of its list`, error);
        [cursor, wait, restarted] = ["", 0, error];
        continue;
      }
      const { page, held } = answer;
      if (restarted) page.restarted = restarted;
      [restarted, kept] = [undefined, false];
      yield page;
      if (page.cursor !== cursor) await state.save(page.cursor);
      cursor = page.cursor;
      if (options.once && !page.more) return;
      if (wait > 0 && !page.more && !held) {
        // Too many requests wait already.
        await this.#http.sleep(unheldWait / 2 + this.#http.random() * unheldWait, options.signal);
      }
      wait = page.more ? 0 : idleWait;
    }
  }

  /** Reads the list in one answer, as it was at one moment. limit has no meaning for it. */
  whole(params?: P, options: CallOptions = {}): Whole<Row> {
    const query = queryOf(params);
    query.delete("limit");
    return new Whole(this.#http, `${this.#path}.ndjson`, query, options);
  }

  /** Reads one object by its id. */
  async get(id: string, options: CallOptions = {}): Promise<Row> {
    return (await this.#http.json<Row>(`${this.#path}/${encodeURIComponent(id)}`, options)).body;
  }

  /** Reads sums over the list, all at one position of the log. Only the filters of params count. */
  async totals(params?: P, groupBy: readonly GroupBy[] = [], options: CallOptions = {}): Promise<Totals> {
    const query = queryOf(params);
    if (groupBy.length > 0) query.set("group_by", groupBy.join(","));
    return (await this.#http.json<Totals>(this.#path.replace("/v1/", "/v1/totals/"), { ...options, query })).body;
  }

  async #page(query: URLSearchParams, cursor: string, wait: number, options: CallOptions): Promise<{ page: Page<Row>; held: boolean }> {
    if (cursor) query.set("cursor", cursor);
    else query.delete("cursor");
    const { headers, body } = await this.#http.json<PageBody<Row>>(this.#path, { ...options, query, wait });
    if (!Array.isArray(body?.data) || typeof body.has_more !== "boolean" || typeof body.next_cursor !== "string") {
      throw new TypeError(`read a page of ${this.#path}: data, has_more or next_cursor is missing`);
    }
    if (body.has_more && body.next_cursor === cursor) {
      throw new TypeError(`read a page of ${this.#path}: it says that there is more, but its cursor is the one with which it was asked for`);
    }
    const page: Page<Row> = {
      rows: [],
      removed: [],
      cursor: body.next_cursor,
      more: body.has_more,
      position: Number(headers.get("Log-Position")),
    };
    for (const row of body.data) {
      if (isRemoved(row)) page.removed.push(row);
      else page.rows.push(row);
    }
    return { page, held: headers.has("Preference-Applied") };
  }
}

interface PageBody<Row> {
  data?: (Row | RemovedRow)[];
  has_more?: boolean;
  next_cursor?: string;
}

/** A whole list in one answer. It is streamed, so its length does not matter. */
export class Whole<Row> implements AsyncIterable<Row> {
  /**
   * Known when the loop has ended without an error. A follower with the same parameters goes on from
   * it. Followers include removed rows, so the whole list must have include: "removed", if its
   * parameters have that.
   */
  cursor: string | undefined;
  /** The rows that are no longer there. They are known when the loop has ended. */
  removed: RemovedRow[] = [];

  readonly #http: Http;
  readonly #path: string;
  readonly #query: URLSearchParams;
  readonly #options: CallOptions;

  constructor(http: Http, path: string, query: URLSearchParams, options: CallOptions) {
    this.#http = http;
    this.#path = path;
    this.#query = query;
    this.#options = options;
  }

  /** Sends the request and reads the rows. It fails with a BrokenOffError if rows are missing. */
  async *[Symbol.asyncIterator](): AsyncGenerator<Row, void, undefined> {
    [this.cursor, this.removed] = [undefined, []];
    let last: string | undefined;
    for await (const line of this.#lines()) {
      if (last !== undefined) throw new BrokenOffError(this.#path, "there is more after the last line");
      if (isRemoved(line)) this.removed.push(line);
      else if ((last = lastCursor(line)) === undefined) yield line as Row;
    }
    if (last === undefined) throw new BrokenOffError(this.#path, "the last line is missing");
    this.cursor = last;
  }

  async *#lines(): AsyncGenerator<unknown, void, undefined> {
    const { response, close } = await this.#http.stream(this.#path, { ...this.#options, query: this.#query });
    const reader = response.body?.getReader();
    try {
      const decoder = new TextDecoder();
      let rest = "";
      for (;;) {
        const { value, done } = await this.#orBrokenOff(async () => (await reader?.read()) ?? { value: undefined, done: true });
        const lines = (rest + decoder.decode(value, { stream: !done })).split("\n");
        rest = done ? "" : (lines.pop() ?? "");
        for (const line of lines) {
          if (line !== "") yield await this.#orBrokenOff(() => parseJSON(line));
        }
        if (done) return;
      }
    } finally {
      reader?.cancel().catch(() => undefined); // the answer may be over
      close();
    }
  }

  async #orBrokenOff<T>(read: () => T | Promise<T>): Promise<T> {
    try {
      return await read();
    } catch (error) {
      this.#options.signal?.throwIfAborted();
      throw new BrokenOffError(this.#path, error);
    }
  }
}

/** The cursor of the last line of a whole list; undefined for a row. */
function lastCursor(line: unknown): string | undefined {
  const { has_more, next_cursor } = line as PageBody<never>;
  return typeof has_more === "boolean" ? next_cursor : undefined;
}

function isRemoved(row: unknown): row is RemovedRow {
  return (row as Partial<RemovedRow>).removed === true;
}

/**
 * Whether an error says that a cursor cannot go on, but a new start can. An invalid cursor that this
 * follower was given is a mistake; one that was kept may be of another installation.
 */
function isLostPlace(error: unknown, kept: boolean): error is ApiError {
  const code = codeOf(error) ?? "";
  return ["cursor_reset", "cursor_permissions", "events_missed"].includes(code) || (kept && code === "cursor_invalid");
}

function queryOf(params: object = {}): URLSearchParams {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    if (value !== undefined) query.set(name, value instanceof Date ? value.toISOString() : String(value));
  }
  return query;
}
