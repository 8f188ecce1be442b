"""Runs a task of ../../scenarios with this client: JSON on standard input, JSON on standard output.

    python3 tests/runner.py          with Client
    python3 tests/runner.py async    with AsyncClient
"""

from __future__ import annotations

import asyncio
import collections
import json
import os
import sys
import threading
import time
from decimal import Decimal
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import ledgerfeed  # noqa: E402
from ledgerfeed import webhook  # noqa: E402

VERDICTS = {
    webhook.NoSignature: "no_signature",
    webhook.BadSignature: "bad_signature",
    webhook.WrongTime: "timestamp",
}


class Runner:
    """Does what a task says, and keeps what it found."""

    def __init__(self, given: dict[str, Any]) -> None:
        self.given = given
        self.task: dict[str, Any] = given["scenario"]
        self.got: dict[str, Any] = {"waits": []}

    def options(self) -> dict[str, Any]:
        return {"cache_entries": self.task.get("cache", 0), "sleep": self.sleep, "random": lambda: 0.5}

    def sleep(self, seconds: float) -> None:
        self.got["waits"].append(seconds)
        time.sleep(seconds / 1000)

    def address(self) -> tuple[str, str]:
        return self.given["url"], self.given["keys"][self.task["key"]]

    def parameters(self) -> dict[str, Any]:
        params = dict(self.task.get("params", {}))
        if params.pop("include", None):
            params["include_removed"] = True
        return params

    def method(self, api: Any, suffix: str = "") -> Any:
        return getattr(api, self.task["list"].replace("-", "_") + suffix)

    def one(self) -> str:
        name: str = self.task["list"]
        return {"time-entries": "time_entry"}.get(name, name.removesuffix("s"))

    def rows(self, row: Any) -> None:
        self.got.setdefault("rows", []).append(row)

    def page(self, page: ledgerfeed.Page[Any]) -> bool:
        """Takes a page over, and says whether it is the last one to be read."""
        taken: dict[str, Any] = {"rows": page.rows, "removed": [row["id"] for row in page.removed]}
        if page.restarted:
            taken["restarted"] = page.restarted.code
        pages = self.got.setdefault("pages", [])
        pages.append(taken)
        until = self.task.get("until_position", 0)
        return len(pages) == self.task.get("leave_at") or (0 < until <= page.position and not page.more)

    def add(self, row: Any) -> None:
        sums = self.got.setdefault("sums", collections.defaultdict(Decimal))
        sums[row["currency"]] += row[self.task["field"]]

    def whole(self, whole: Any) -> None:
        self.got["cursor"] = whole.cursor != ""
        self.got["removed"] = [row["id"] for row in whole.removed]

    def compare(self) -> None:
        pairs = [(Decimal(a), Decimal(b)) for a, b in self.task["pairs"]]
        self.got["compared"] = [int(a.compare(b)) for a, b in pairs]

    def verify(self) -> None:
        for m in self.task["messages"]:
            try:
                ledgerfeed.verify(m["headers"], m["body"].encode(), m["secrets"], now=m["now"])
                verdict = "good"
            except webhook.VerificationError as error:
                verdict = VERDICTS[type(error)]
            self.got.setdefault("verdicts", []).append(verdict)

    def handle(self, d: ledgerfeed.Delivery) -> None:
        handled = {"event": d.event["id"], "type": d.event["type"], "delivery": d.id, "position": d.position}
        self.got.setdefault("handled", []).append(handled)
        if self.message.get("fails"):
            raise RuntimeError("the queue is full")

    def now(self) -> float:
        return float(self.message["now"])

    def receive(self) -> None:
        receiver = ledgerfeed.Webhook(self.task["messages"][0]["secrets"], self.handle, now=self.now)
        for self.message in self.task["messages"]:
            m = self.message
            answer = receiver.receive(m.get("method") or "POST", m["headers"], m["body"].encode())
            self.got.setdefault("statuses", []).append(answer.status)

    async def areceive(self) -> None:
        async def handle(d: ledgerfeed.Delivery) -> None:
            self.handle(d)

        receiver = ledgerfeed.AsyncWebhook(self.task["messages"][0]["secrets"], handle, now=self.now)
        for self.message in self.task["messages"]:
            m = self.message
            answer = await receiver.receive(m.get("method") or "POST", m["headers"], m["body"].encode())
            self.got.setdefault("statuses", []).append(answer.status)

    def run(self) -> None:
        """Does a task with Client."""
        task = self.task
        if task["do"] in ("compare", "verify", "receive"):
            getattr(self, task["do"])()
            return
        with ledgerfeed.Client(*self.address(), **self.options()) as client:
            api = client.at_least(task["position"]) if task.get("position") else client
            if task["do"] in ("rows", "sum"):
                for row in self.method(api)(**self.parameters()):
                    (self.rows if task["do"] == "rows" else self.add)(row)
            elif task["do"] in ("pages", "follow"):
                listing = self.method(api)(**self.parameters())
                for page in listing.pages() if task["do"] == "pages" else listing.follow(*self.state(), **self.ways()):
                    if self.page(page):
                        break
            elif task["do"] == "whole":
                whole = self.method(api)(**self.parameters()).whole()
                try:
                    for row in whole:
                        self.rows(row)
                finally:
                    self.whole(whole)
            elif task["do"] == "get":
                for _ in range(task.get("times", 1)):
                    self.rows(getattr(api, self.one())(task["id"]))
            else:
                totals = getattr(api, self.one() + "_totals")(group_by=task["group_by"], **self.parameters())
                self.got["rows"] = totals["data"]

    async def arun(self) -> None:
        """Does a task with AsyncClient."""
        task = self.task
        if task["do"] in ("compare", "verify"):
            getattr(self, task["do"])()
            return
        if task["do"] == "receive":
            await self.areceive()
            return
        async with ledgerfeed.AsyncClient(*self.address(), **self.options()) as client:
            api = client.at_least(task["position"]) if task.get("position") else client
            if task["do"] in ("rows", "sum"):
                async for row in self.method(api)(**self.parameters()):
                    (self.rows if task["do"] == "rows" else self.add)(row)
            elif task["do"] in ("pages", "follow"):
                listing = self.method(api)(**self.parameters())
                async for page in listing.pages() if task["do"] == "pages" else listing.follow(*self.state(), **self.ways()):
                    if self.page(page):
                        break
            elif task["do"] == "whole":
                whole = self.method(api)(**self.parameters()).whole()
                try:
                    async for row in whole:
                        self.rows(row)
                finally:
                    self.whole(whole)
            elif task["do"] == "get":
                for _ in range(task.get("times", 1)):
                    self.rows(await getattr(api, self.one())(task["id"]))
            else:
                totals = await getattr(api, self.one() + "_totals")(group_by=task["group_by"], **self.parameters())
                self.got["rows"] = totals["data"]

    def state(self) -> list[ledgerfeed.FileState]:
        return [ledgerfeed.FileState(self.task["state"])]

    def ways(self) -> dict[str, bool]:
        return {"start_again": self.task.get("start_again", False), "once": self.task.get("once", False)}


def main() -> None:
    runner = Runner(json.load(sys.stdin))
    try:
        if sys.argv[1:] == ["async"]:
            asyncio.run(runner.arun())
        else:
            runner.run()
    except ledgerfeed.ApiError as error:
        runner.got["error"] = {"kind": "api", "status": error.status, "code": error.code, "request_id": error.request_id}
    except ledgerfeed.BrokenOff as error:
        runner.got["error"] = {"kind": "broken_off", "message": str(error)}
    except ledgerfeed.LedgerfeedError as error:
        runner.got["error"] = {"kind": "other", "message": str(error)}
    if threading.active_count() > 1:
        sys.exit(f"threads are left: {threading.enumerate()}")
    sums = runner.got.get("sums", {})
    runner.got["sums"] = {currency: str(total) for currency, total in sums.items()}
    print(ledgerfeed.write_json(runner.got))


main()
