// Does what a scenario says with this client: ../../scenarios/README.md.
import * as client from "../src/index.js";

interface Message {
  method?: string;
  headers: Record<string, string>;
  body: string;
  secrets: string[];
  now: number;
  fails?: boolean;
}

interface Task {
  do: string;
  list: string;
  key: string;
  id?: string;
  params?: object;
  state?: string;
  once?: boolean;
  start_again?: boolean;
  leave_at?: number;
  until_position?: number;
  position?: number;
  times?: number;
  cache?: number;
  field?: string;
  group_by?: client.GroupBy[];
  pairs?: [string, string][];
  messages?: Message[];
}

type AnyList = client.List<Record<string, unknown>, object, { data: unknown[] }>;

/** What a runner gets. */
export interface Input {
  url: string;
  keys: Record<string, string>;
  scenario: Task;
}

/** Does a task and returns what it found. stateAt gives the place of followers that has a name. */
export async function perform(input: Input, stateAt: (name: string) => client.State): Promise<object> {
  const task = input.scenario;
  const waits: number[] = [];
  const result: Record<string, unknown> = { waits };
  try {
    await run();
  } catch (error) {
    result.error = failure(error);
  }
  return result;

  async function run(): Promise<void> {
    if (task.do === "compare") {
      result.compared = (task.pairs ?? []).map(([a, b]) => client.compare(a, b));
    } else if (task.do === "verify") {
      result.verdicts = await Promise.all((task.messages ?? []).map(verdict));
    } else if (task.do === "receive") {
      await receive(task.messages ?? []);
    } else {
      await read(listOf(connect(), task.list));
    }
  }

  function connect(): client.Client {
    const api = new client.Client({
      url: input.url,
      key: input.keys[task.key] ?? "",
      cacheEntries: task.cache ?? 0,
      random: () => 0.5,
      sleep: async (time) => {
        waits.push(time / 1000);
        await new Promise((wake) => setTimeout(wake, time / 1000));
      },
    });
    return task.position ? api.atLeast(task.position) : api;
  }

  async function read(list: AnyList): Promise<void> {
    switch (task.do) {
      case "rows":
        result.rows = await collected(list.rows(task.params));
        return;
      case "pages":
        return pages(list.pages(task.params));
      case "follow": {
        const options = { startAgain: task.start_again ?? false, once: task.once ?? false };
        return pages(list.follow(stateAt(task.state ?? ""), task.params, options));
      }
      case "whole": {
        const whole = list.whole(task.params);
        try {
          result.rows = await collected(whole);
        } finally {
          result.cursor = whole.cursor !== undefined;
          result.removed = whole.removed.map((row) => row.id);
        }
        return;
      }
      case "get": {
        const rows: unknown[] = [];
        for (let i = 0; i < (task.times ?? 1); i++) rows.push(await list.get(task.id ?? ""));
        result.rows = rows;
        return;
      }
      case "totals":
        result.rows = (await list.totals(task.params, task.group_by)).data;
        return;
      case "sum": {
        const sums: Record<string, client.Decimal> = {};
        for await (const row of list.rows(task.params)) {
          const currency = String(row.currency);
          sums[currency] = client.add(sums[currency] ?? "0", row[task.field ?? ""] as client.Decimal);
        }
        result.sums = sums;
        return;
      }
      default:
        throw new Error(`nobody knows how to do ${task.do}`);
    }
  }

  async function pages(pages: AsyncIterable<client.Page<unknown>>): Promise<void> {
    const taken: unknown[] = [];
    result.pages = taken;
    for await (const page of pages) {
      taken.push({ rows: page.rows, removed: page.removed.map((row) => row.id), restarted: page.restarted?.code });
      if (taken.length === task.leave_at) break;
      if (task.until_position && page.position >= task.until_position && !page.more) break;
    }
  }

  async function receive(messages: Message[]): Promise<void> {
    const handled: unknown[] = [];
    const statuses: number[] = [];
    let current: Message | undefined;
    const hook = client.webhook({
      secrets: messages[0]?.secrets ?? [],
      now: () => 1000 * (current?.now ?? 0),
      handle: ({ event, id, position }) => {
        handled.push({ event: event.id, type: event.type, delivery: id, position });
        if (current?.fails) throw new Error("the queue is full");
      },
    });
    for (current of messages) {
      const method = current.method ?? "POST";
      const body = method === "POST" ? current.body : null;
      const response = await hook(new Request("http://localhost/hook", { method, headers: current.headers, body }));
      statuses.push(response.status);
    }
    Object.assign(result, { handled, statuses });
  }
}

function listOf(api: client.Client, name: string): AnyList {
  const member = name.replace(/-(.)/, (_, letter: string) => letter.toUpperCase());
  return api[member as "invoices"] as unknown as AnyList;
}

async function collected<T>(rows: AsyncIterable<T>): Promise<T[]> {
  const list: T[] = [];
  for await (const row of rows) list.push(row);
  return list;
}

async function verdict(message: Message): Promise<string> {
  try {
    await client.verify(message.headers, message.body, message.secrets, { now: () => 1000 * message.now });
    return "good";
  } catch (error) {
    return error instanceof client.SignatureError ? error.reason : String(error);
  }
}

function failure(error: unknown): object {
  const message = String(error);
  if (error instanceof client.ApiError) {
    return { kind: "api", status: error.status, code: error.code, request_id: error.requestId, message };
  }
  return { kind: error instanceof client.BrokenOffError ? "broken_off" : "other", message };
}
