import { ApiError } from "./errors.js";
import { numberFields } from "./types.js";

/** Waits between tries grow up to a bound, in milliseconds. */
const firstRetry = 1_000;
const longestRetry = 30_000;
/** Above a minute, after which the API's rate limit begins anew. */
const defaultRetryFor = 120_000;
/** Bounds one try, on top of the time that it asks the API to wait. */
const answerTimeout = 60_000;

/** Configures a Client. */
export interface ClientConfig {
  /** Of the API, such as https://api.example.com. */
  url: string;
  /** An API key. */
  key: string;
  /** How long one call goes on trying, in milliseconds. Two minutes if it is missing; 0: one try. */
  retryFor?: number;
  /**
   * How many answers the Client keeps, at most. If it has an answer already, it asks whether that
   * one is still right, which saves the transfer. None if it is missing.
   */
  cacheEntries?: number;
  /** Of your program. Browsers do not send it. */
  userAgent?: string;
  /** Hears of tries that failed and of followers that start again. */
  log?: (message: string, error: unknown) => void;

  /** For tests. What is missing is the real thing; times are in milliseconds. */
  fetch?: typeof fetch;
  now?: () => number;
  sleep?: (time: number, signal?: AbortSignal) => Promise<void>;
  random?: () => number;
}

/** Ends a call early; it then fails with the signal's reason. */
export interface CallOptions {
  signal?: AbortSignal | undefined;
}

/** What a request asks for. */
export interface Ask extends CallOptions {
  query?: URLSearchParams;
  /** How long the API may hold its answer, in seconds (Prefer). */
  wait?: number;
}

/** An answer with status 200. */
export interface Answer {
  headers: Headers;
  text: string;
}

/** Sends requests until they are answered. */
export class Http {
  #config: ClientConfig;
  #shared: { base: string; cache: Map<string, Answer> }; // by address, the last used last
  #position = 0;

  constructor(config: ClientConfig) {
    if (!/^[\x21-\x7e]+$/.test(config.key)) throw new TypeError("want an API key");
    this.#config = config;
    this.#shared = { base: checkAddress(config.url), cache: new Map() };
  }

  /** The same with answers from this position of the log or a later one. */
  at(position: number): Http {
    const http = new Http(this.#config);
    http.#shared = this.#shared;
    http.#position = position;
    return http;
  }

  /** Reads a JSON answer. */
  async json<T>(path: string, ask: Ask = {}): Promise<{ headers: Headers; body: T }> {
    const { headers, text } = await this.#retry(path, ask, () => this.#try(path, ask));
    try {
      return { headers, body: parseJSON(text) as T };
    } catch (cause) {
      throw new TypeError(`the answer of ${path} is not JSON`, { cause });
    }
  }

  /** Opens an answer that is read line by line. close frees what it holds. */
  async stream(path: string, ask: Ask): Promise<{ response: Response; close: () => void }> {
    return this.#retry(path, ask, async () => {
      const timed = timeout(answerTimeout, ask.signal);
      try {
        const response = await this.#send(path, ask, timed.signal);
        timed.stop(); // the list may take longer than its first bytes
        return { response, close: timed.end };
      } catch (error) {
        timed.end();
        throw error;
      }
    });
  }

  log(message: string, error: unknown): void {
    this.#config.log?.(message, error);
  }

  random(): number {
    return (this.#config.random ?? Math.random)();
  }

  sleep(time: number, signal?: AbortSignal): Promise<void> {
    return (this.#config.sleep ?? sleep)(time, signal);
  }

  async #retry<T>(path: string, ask: Ask, attempt: () => Promise<T>): Promise<T> {
    const now = this.#config.now ?? Date.now;
    const until = now() + (this.#config.retryFor ?? defaultRetryFor);
    for (let wait = firstRetry; ; wait = Math.min(2 * wait, longestRetry)) {
      ask.signal?.throwIfAborted();
      try {
        return await attempt();
      } catch (error) {
        ask.signal?.throwIfAborted();
        const pause = this.#pause(error, wait);
        if (pause === undefined || now() + pause > until) throw error;
        this.log(`${path} failed and is tried again in ${Math.round(pause)} ms`, error);
        await this.sleep(pause, ask.signal);
      }
    }
  }

  /**
   * How long to wait before the next try, at random, so that the clients of a service that comes
   * back do not come at the same moment; undefined if a retry changes nothing.
   */
  #pause(error: unknown, wait: number): number | undefined {
    const spread = (this.random() * wait) / 2;
    if (!(error instanceof ApiError)) return untrusted(error) ? undefined : wait / 2 + spread;
    if (error.status === 503 && error.movedTo !== undefined) {
      try {
        this.#shared.base = checkAddress(error.movedTo); // the workspace moved there with its keys and cursors
        return wait / 2 + spread;
      } catch {
        // The key would travel in plain text. The answer is one like others.
      }
    }
    return error.worthRetry ? Math.max(wait / 2, error.retryAfter) + spread : undefined;
  }

  async #try(path: string, ask: Ask): Promise<Answer> {
    const timed = timeout(answerTimeout + 1000 * (ask.wait ?? 0), ask.signal);
    try {
      const target = this.#target(path, ask);
      const kept = ask.wait ? undefined : this.#kept(target);
      const response = await this.#send(path, ask, timed.signal, kept);
      if (response.status === 304 && kept) return { headers: response.headers, text: kept.text };
      const answer = { headers: response.headers, text: await response.text() };
      this.#keep(target, answer);
      return answer;
    } finally {
      timed.end();
    }
  }

  #target(path: string, ask: Ask): string {
    const query = ask.query?.toString();
    return this.#shared.base + path + (query ? `?${query}` : "");
  }

  /** Sends a request once. The answer has status 200, or 304 if kept may still be right. */
  async #send(path: string, ask: Ask, signal: AbortSignal, kept?: Answer): Promise<Response> {
    const headers = new Headers({
      Authorization: `Bearer ${this.#config.key}`,
      "User-Agent": `ledgerfeed-typescript ${this.#config.userAgent ?? ""}`.trim(),
    });
    if (ask.wait) headers.set("Prefer", `wait=${ask.wait}`);
    if (this.#position > 0) headers.set("Log-Position-At-Least", String(this.#position));
    if (kept) headers.set("If-None-Match", kept.headers.get("ETag") ?? "");
    // A redirect could send the key to another host.
    const response = await (this.#config.fetch ?? fetch)(this.#target(path, ask), { headers, signal, redirect: "manual" });
    if (response.status === 200 || (response.status === 304 && kept)) return response;
    throw new ApiError(path, response, await response.text(), (this.#config.now ?? Date.now)());
  }

  #kept(target: string): Answer | undefined {
    const { cache } = this.#shared;
    const answer = cache.get(target);
    if (answer) {
      cache.delete(target);
      cache.set(target, answer);
    }
    return answer;
  }

  #keep(target: string, answer: Answer): void {
    const { cache } = this.#shared;
    const most = this.#config.cacheEntries ?? 0;
    if (most === 0 || !answer.headers.get("ETag")) return;
    cache.delete(target);
    cache.set(target, answer);
    for (const oldest of cache.keys()) {
      if (cache.size <= most) break;
      cache.delete(oldest);
    }
  }
}

/** Reads JSON. The numbers of numberFields become text with all their digits. */
export function parseJSON(text: string): unknown {
  const exact = numberFields.some((name) => text.includes(`"${name}"`)) ? text.replace(memberOrText, quoted) : text;
  return JSON.parse(exact);
}

/** Text, and the number for which it is the name, if it is one. */
const memberOrText = /"((?:[^"\\]|\\.)*)"(?:(\s*:\s*)(-?\d[\d.eE+-]*))?/g;

function quoted(all: string, name: string, colon: string | undefined, number: string | undefined): string {
  return number !== undefined && numberFields.includes(name) ? `"${name}"${colon}"${number}"` : all;
}

/** The address in the form in which paths follow. Only this machine may have http://. */
function checkAddress(address: string): string {
  const url = URL.canParse(address) ? new URL(address) : undefined;
  if (!url || !/^https?:$/.test(url.protocol) || url.username || url.password || url.search || url.hash) {
    throw new TypeError("want the API's address, such as https://api.example.com");
  }
  if (url.protocol === "http:" && !/^(localhost|127(\.\d+){3}|\[::1\])$/.test(url.hostname)) {
    throw new TypeError(`${url.host} would carry the key in plain text: want https://; http:// is for this machine alone`);
  }
  return address.replace(/\/$/, "");
}

/** Whether the server's certificate is not trusted, as Node, Deno and Bun say it. */
function untrusted(error: unknown): boolean {
  const cause = error instanceof Error ? (error.cause ?? error) : error;
  const { code, message } = cause as { code?: unknown; message?: unknown };
  return /CERT|SELF_SIGNED|VERIFY_LEAF|invalid peer certificate/.test(`${code} ${message}`);
}

/** A signal that ends after some time or with the caller's. */
function timeout(time: number, caller?: AbortSignal): { signal: AbortSignal; stop: () => void; end: () => void } {
  const controller = new AbortController();
  const follow = () => controller.abort(caller?.reason);
  caller?.addEventListener("abort", follow);
  const timer = setTimeout(() => controller.abort(new Error("there was no whole answer in time")), time);
  const stop = () => clearTimeout(timer);
  const end = () => {
    stop();
    caller?.removeEventListener("abort", follow);
  };
  return { signal: controller.signal, stop, end };
}

function sleep(time: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const ended = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", ended);
      resolve();
    }, time);
    signal?.addEventListener("abort", ended, { once: true });
  });
}
