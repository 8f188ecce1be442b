"""The samples of README.md and of the guide. A test runs them against a service.

    API_URL=http://127.0.0.1:8080 API_KEY=… python3 samples.py
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import sys
import tempfile
from decimal import Decimal

from ledgerfeed import (
    ApiError,
    AsyncClient,
    BrokenOff,
    Client,
    Delivery,
    FileState,
    LoadOnly,
    NotFound,
    Webhook,
    write_json,
)
from ledgerfeed.types import TimeEntry


def connect() -> Client:
    api = Client(
        os.environ["API_URL"],
        os.environ["API_KEY"],
        retry_for=300,  # seconds for which one call goes on trying
        cache_entries=1000,  # do not transfer again what has not changed
        user_agent="acme-reports/1.0",
    )
    return api


def rows(api: Client) -> None:
    due = Decimal(0)
    for invoice in api.invoices(open=True, date_from="2026-10-01", date_to="2026-10-31"):
        print(invoice["number"], invoice["net_due"], invoice["currency"])
        due += invoice["net_due"]
    print("in all", due)

    for page in api.invoices(limit=1).pages():
        print(len(page.rows), "row at position", page.position, "and more:", page.more)


def follow(api: Client) -> None:
    copy: dict[str, TimeEntry] = {}
    # Without once, the loop waits for more, for as long as the program runs.
    for page in api.time_entries().follow(FileState("time-entries.cursor"), start_again=True, once=True):
        if page.restarted:
            copy.clear()  # what the service has lost comes in no page
        for row in page.rows:
            copy[row["id"]] = row
        for gone in page.removed:
            copy.pop(gone["id"], None)
        # After this page the place is saved. If you leave the loop, the page comes again.
    print({name: row["hours"] for name, row in copy.items()})


def transaction(api: Client) -> None:
    db = sqlite3.connect("copy.db")
    db.execute("CREATE TABLE IF NOT EXISTS events (id TEXT PRIMARY KEY, body TEXT)")
    db.execute("CREATE TABLE IF NOT EXISTS place (cursor TEXT)")

    def load() -> str | None:
        found = db.execute("SELECT cursor FROM place").fetchone()
        return found[0] if found else None

    for page in api.events().follow(LoadOnly(load), once=True):
        with db:  # either the rows and the place are saved, or neither
            for event in page.rows:
                db.execute("INSERT INTO events VALUES (?, ?)", (event["id"], write_json(event)))
            db.execute("DELETE FROM place")
            db.execute("INSERT INTO place VALUES (?)", (page.cursor,))
    print(db.execute("SELECT count(*) FROM events").fetchone()[0], "events")
    db.close()


def whole(api: Client) -> None:
    invoices = api.invoices(include_removed=True).whole()
    try:
        n = sum(1 for invoice in invoices)
    except BrokenOff:
        sys.exit("rows are missing: read the list again")
    print(n, "invoices, to go on from a cursor:", invoices.cursor != "")


def totals(api: Client) -> None:
    for total in api.invoice_totals(group_by=["client"], open=True)["data"]:
        client = total.get("client")
        print(client and client["name"], total["count"], total["net_due"], total["currency"])


def errors(api: Client) -> None:
    try:
        api.invoice("in_404")
    except NotFound:
        print("there is no such invoice")
    except ApiError as error:
        sys.exit(f"{error.status} {error.code}: {error.detail} ({error.request_id})")


def position(api: Client) -> None:
    delivery_position = 7  # Delivery.position of a webhook's message
    invoice = api.at_least(delivery_position).invoice("in_1")
    print(invoice["client_billing_status"])


def webhooks() -> None:
    def handle(delivery: Delivery) -> None:
        print(delivery.event["type"], delivery.event["data"]["object_id"], "at position", delivery.position)

    # While you rotate the secret, give the new one and the old one.
    webhook = Webhook(["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"], handle)

    # In a view of your framework: the method, the headers and the raw body of the request.
    answer = webhook.receive("POST", {"SERVICE-Signature": "t=1,v1=00"}, b"{}")
    print(answer.status, answer.text)


async def asynchronous() -> None:
    async with AsyncClient(os.environ["API_URL"], os.environ["API_KEY"]) as api:
        async for client in api.clients():
            print(client["name"])
        print((await api.me())["company"]["id"])


if __name__ == "__main__":
    os.chdir(tempfile.mkdtemp() if len(sys.argv) < 2 else sys.argv[1])
    with connect() as connected:
        for sample in rows, follow, transaction, whole, totals, errors, position:
            sample(connected)
    webhooks()
    asyncio.run(asynchronous())
