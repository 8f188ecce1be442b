import type { ParameterError, Problem } from "./types.js";

/** Says why the API refused a request. The API may add codes. */
export type Code =
  | "invalid_parameter"
  | "cursor_invalid" // altered, of another installation, or another parameter differs
  | "cursor_reset" // the log went back to an earlier state
  | "cursor_permissions" // the key sees more than the one before
  | "events_missed" // the next event is no longer kept
  | "key_in_url"
  | "unauthorized"
  | "permission_missing"
  | "not_found"
  | "method_not_allowed"
  | "rate_limited"
  | "address_slowed_down"
  | "position_not_reached"
  | "headers_too_large"
  | "busy"
  | "unavailable"
  | "internal"
  | (string & {});

/** An answer that refuses a request. */
export class ApiError extends Error {
  override readonly name = "ApiError";
  readonly path: string;
  readonly status: number;
  /** Undefined if the answer is not the API's, for example a proxy's. */
  readonly code: Code | undefined;
  /** In words. */
  readonly detail: string | undefined;
  /** Tell it to the API's operator. */
  readonly requestId: string | undefined;
  readonly parameters: readonly ParameterError[];
  /** In milliseconds; 0: the answer does not say. */
  readonly retryAfter: number;
  /** The address that serves the workspace now. */
  readonly movedTo: string | undefined;

  constructor(path: string, response: Response, body: string, now: number) {
    const problem = problemOf(body);
    const redirect = response.type === "opaqueredirect" || (response.status >= 300 && response.status < 400);
    const detail = redirect
      ? "a redirect, which this client does not follow: set url to the API's own address"
      : problem.detail;
    const requestId = response.headers.get("X-Request-Id") ?? undefined;
    super(
      `${path} answered ${response.status}` +
        (problem.code ? ` ${problem.code}` : "") +
        (detail ? `: ${detail}` : "") +
        (problem.errors ?? []).map((p) => ` ${p.field}: ${p.message}.`).join("") +
        (requestId ? ` (request ${requestId})` : ""),
    );
    this.path = path;
    this.status = response.status;
    this.code = problem.code;
    this.detail = detail;
    this.requestId = requestId;
    this.parameters = problem.errors ?? [];
    this.movedTo = problem.moved_to;
    const after = response.headers.get("Retry-After") ?? "";
    this.retryAfter = /^\d+$/.test(after) ? Number(after) * 1000 : Math.max(0, Date.parse(after) - now || 0);
  }

  /** 502 and 504 come from a proxy in front of a service that is down. */
  get worthRetry(): boolean {
    return [429, 500, 502, 503, 504].includes(this.status);
  }
}

function problemOf(body: string): Partial<Problem> {
  try {
    const problem: unknown = JSON.parse(body);
    return typeof problem === "object" && problem !== null ? problem : {};
  } catch {
    return {};
  }
}

/** A whole list whose last line is missing, so rows are missing too. Read it again from its start. */
export class BrokenOffError extends Error {
  override readonly name = "BrokenOffError";

  constructor(path: string, cause: unknown) {
    super(`${path}: the list was broken off before its end: ${cause instanceof Error ? cause.message : cause}`, { cause });
  }
}

/** The code of an ApiError; undefined for another error. */
export function codeOf(error: unknown): Code | undefined {
  return error instanceof ApiError ? error.code : undefined;
}
