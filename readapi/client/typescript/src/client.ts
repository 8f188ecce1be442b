import { type CallOptions, type ClientConfig, Http } from "./http.js";
import { List } from "./list.js";
import type {
  Charge, ChargeParams, ChargeTotals, ClientCredit, ClientRecord, Contractor, Credit, CreditHistoryParams, CreditMovement,
  CreditParams, Event, EventParams, Invoice, InvoiceParams, InvoiceTotals, KeyInformation, PartyParams, Payment, PaymentParams,
  PaymentTotals, TimeEntry, TimeEntryParams, TimeEntryTotals,
} from "./types.js";

/**
 * Reads the data of the workspace to which the key belongs. Only an address of this machine may
 * have http://, because it carries the key in plain text.
 *
 * A field is null if it has no value, and missing if the key may not see it: me says which
 * permissions the key has. Never read it as zero.
 */
export class Client {
  readonly invoices: List<Invoice, InvoiceParams, InvoiceTotals>;
  readonly charges: List<Charge, ChargeParams, ChargeTotals>;
  readonly timeEntries: List<TimeEntry, TimeEntryParams, TimeEntryTotals>;
  readonly payments: List<Payment, PaymentParams, PaymentTotals>;
  readonly clients: Omit<List<ClientRecord, PartyParams>, "totals">;
  readonly contractors: Omit<List<Contractor, PartyParams>, "totals">;
  /** The credit of each client that has any. */
  readonly credits: Omit<List<Credit, CreditParams>, "totals" | "get">;
  /** The history of all clients' credit. */
  readonly creditHistory: Omit<List<CreditMovement, CreditHistoryParams>, "totals" | "get">;
  /** In publish order. A follower gets each event once, as long as every page is saved. */
  readonly events: Omit<List<Event, EventParams>, "totals" | "whole">;
  readonly #http: Http;

  constructor(config: ClientConfig | Http) {
    const http = config instanceof Http ? config : new Http(config);
    this.#http = http;
    this.invoices = new List(http, "/v1/invoices", true);
    this.charges = new List(http, "/v1/charges", true);
    this.timeEntries = new List(http, "/v1/time-entries", true);
    this.payments = new List(http, "/v1/payments", true);
    this.clients = new List<ClientRecord, PartyParams>(http, "/v1/clients", true);
    this.contractors = new List<Contractor, PartyParams>(http, "/v1/contractors", true);
    this.credits = new List<Credit, CreditParams>(http, "/v1/credits", false);
    this.creditHistory = new List<CreditMovement, CreditHistoryParams>(http, "/v1/credit-history", false);
    this.events = new List<Event, EventParams>(http, "/v1/events", false);
  }

  /**
   * A Client whose answers are from the log's position or a later one, on whichever server they come
   * from. With the position of a Delivery you read the state that includes its event.
   */
  atLeast(position: number): Client {
    return new Client(this.#http.at(position));
  }

  /** Reads a client's credit, with a page of its history, newest first. cursor goes on in the history. */
  async clientCredit(clientId: string, params: { cursor?: string; limit?: number } = {}, options: CallOptions = {}): Promise<ClientCredit> {
    const query = new URLSearchParams();
    if (params.cursor) query.set("cursor", params.cursor);
    if (params.limit) query.set("limit", String(params.limit));
    return (await this.#http.json<ClientCredit>(`/v1/clients/${encodeURIComponent(clientId)}/credit`, { ...options, query })).body;
  }

  /** Reads the workspace, and the key's permissions and limit. */
  async me(options: CallOptions = {}): Promise<KeyInformation> {
    return (await this.#http.json<KeyInformation>("/v1/me", options)).body;
  }
}
