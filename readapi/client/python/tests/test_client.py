from __future__ import annotations

import datetime
import inspect
import io
import json
import os
import ssl
import tempfile
import threading
import typing
import unittest
from decimal import Decimal
from typing import Any

import ledgerfeed
from ledgerfeed import types
from ledgerfeed._core import query_of, read_json
from ledgerfeed._errors import BY_CODE
from server import Server, chunked, cut, cut_after, held, page, status


class Waits:
    """A clock that moves only when a client waits."""

    def __init__(self) -> None:
        self.list: list[float] = []

    def options(self) -> dict[str, Any]:
        start = datetime.datetime(2026, 10, 2, 9, tzinfo=datetime.timezone.utc).timestamp()
        return {"now": lambda: start + sum(self.list), "sleep": self.list.append, "random": lambda: 0.5}


def problem(code: str, **more: Any) -> str:
    members = {"code": code, "detail": "In words.", "errors": [{"field": "cursor", "message": "is old"}], **more}
    return json.dumps(members)


class Requests(unittest.TestCase):
    def test_retries(self) -> None:
        busy = status(503, problem("busy"))
        cut_within = cut_after(status(200, "{", Content_Length="9"))
        for answers, waits, failed in [
            ([status(500), busy, status(429, Connection="close"), cut, cut_within, status(200, page())], [0.75, 1.5, 3, 6, 12], 0),
            ([status(503, Retry_After="Fri, 02 Oct 2026 09:00:07 GMT"), status(200, page())], [7.25], 0),
            ([status(503, Retry_After="soon"), status(200, page())], [0.75], 0),
            ([status(503)], [0.75, 1.5, 3, 6, 12, 22.5, 22.5, 22.5, 22.5], 503),
            ([status(404, problem("not_found"))], [], 404),
        ]:
            with self.subTest(waits=waits, failed=failed), Server(*answers) as server:
                clock = Waits()
                api = ledgerfeed.Client(server.url, "k", **clock.options())
                try:
                    list(api.invoices())
                    got = 0
                except ledgerfeed.ApiError as error:
                    got = error.status
                self.assertEqual((got, clock.list), (failed, waits))
                api.close()

    def test_one_try(self) -> None:
        with Server(cut) as server, self.assertRaises(ledgerfeed.ConnectionFailed) as raised:
            ledgerfeed.Client(server.url, "k", retry_for=0).me()
        self.assertNotIn(server.url, str(raised.exception))

    def test_a_workspace_that_moved(self) -> None:
        with Server(status(200, page('{"id":"in_1"}'))) as there:
            with Server(status(503, problem("unavailable", moved_to=there.url))) as here:
                with ledgerfeed.Client(here.url, "k", **Waits().options()) as api:
                    self.assertEqual([row["id"] for row in api.invoices()], ["in_1"])
                    self.assertEqual(len(list(api.invoices())), 1)
                self.assertEqual((len(here.requests), len(there.requests)), (1, 2))

    def test_connections_are_kept(self) -> None:
        for answer, connections in (status(200, page()), 1), (chunked(page()), 1), (status(200, page(), Connection="close"), 3):
            with Server(answer) as server, ledgerfeed.Client(server.url, "k") as api:
                for _ in range(3):
                    list(api.invoices())
                self.assertEqual(server.connections, connections)

    def test_a_kept_connection_that_was_closed(self) -> None:
        clock = Waits()
        with Server(cut_after(status(200, page()))) as server, ledgerfeed.Client(server.url, "k", **clock.options()) as api:
            for _ in range(3):
                list(api.invoices())
        self.assertEqual((clock.list, server.connections), ([], 3))

    def test_addresses(self) -> None:
        for good in "https://api.example.com", "https://a/base/", "http://localhost:1", "http://127.0.0.2", "http://[::1]:1":
            ledgerfeed.Client(good, "k")
        for bad in "", "api.example.com", "http://api.example.com", "http://127.1", "https://u@a", "https://a?b", "https://a#b", "ftp://a", "https://a:b":
            with self.assertRaises(ValueError):
                ledgerfeed.Client(bad, "k")

    def test_a_certificate_that_is_not_trusted_is_not_tried_again(self) -> None:
        api = ledgerfeed.Client("https://localhost", "k")
        failed = ledgerfeed.ConnectionFailed("x")
        failed.__cause__ = ssl.SSLCertVerificationError()
        self.assertIsNone(api._pause_after(failed, 1))

    def test_errors(self) -> None:
        self.assertEqual(set(BY_CODE), set(typing.get_args(types.ErrorCode)))
        with Server(status(400, problem("cursor_reset"), X_Request_Id="req_1"), status(418, problem("teapot")), status(404, "<html>"), status(302)) as server:
            api = ledgerfeed.Client(server.url, "k")
            with self.assertRaises(ledgerfeed.CursorReset) as raised:
                api.me()
            self.assertEqual(str(raised.exception), "/v1/me answered 400 cursor_reset: In words. cursor: is old. (request req_1)")
            self.assertEqual((raised.exception.request_id, raised.exception.parameters[0]["field"]), ("req_1", "cursor"))
            for text in "teapot", "404", "redirect":
                with self.assertRaisesRegex(ledgerfeed.ApiError, text):
                    api.me()
            api.close()

    def test_the_cache_has_a_bound(self) -> None:
        with Server(status(200, "{}", ETag='"a"')) as server, ledgerfeed.Client(server.url, "k", cache_entries=2) as api:
            for name in "abcab":
                api.invoice(name)
            self.assertEqual([r.headers["If-None-Match"] for r in server.requests], [None] * 5)
            api.invoice("a")
            self.assertEqual(server.requests[-1].headers["If-None-Match"], '"a"')

    def test_headers(self) -> None:
        with Server(status(200, "{}")) as server, ledgerfeed.Client(server.url + "/base/", "k", user_agent="acme/1") as api:
            api.at_least(7).invoice("a/b?")
            sent = server.requests[0]
            self.assertEqual(sent.path, "/base/v1/invoices/a%2Fb%3F")
            self.assertEqual([sent.headers[n] for n in ("Authorization", "User-Agent", "Log-Position-At-Least")], ["Bearer k", "ledgerfeed-python acme/1", "7"])

    def test_close_ends_what_other_threads_wait_for(self) -> None:
        begun = threading.Event()
        with Server(held(begun)) as server:
            api = ledgerfeed.Client(server.url, "k")
            errors: list[Exception] = []

            def read() -> None:
                try:
                    api.me()
                except ledgerfeed.Closed as error:
                    errors.append(error)

            thread = threading.Thread(target=read)
            thread.start()
            begun.wait()
            api.close()
            thread.join()
            self.assertEqual(len(errors), 1)
            with self.assertRaises(ledgerfeed.Closed):
                api.me()


class Values(unittest.TestCase):
    def test_queries(self) -> None:
        since = datetime.datetime(2026, 10, 2, 11, 15, 0, 120_999, datetime.timezone(datetime.timedelta(hours=2)))
        self.assertEqual(
            query_of(limit=7, updated_since=since, include_removed=True, date_from=since.date(), date_to="2026-10-03", status="sent", open=False, period=None, group_by=("client", "month")),
            {"limit": "7", "updated_since": "2026-10-02T09:15:00.120Z", "include": "removed", "date_from": "2026-10-02", "date_to": "2026-10-03", "status": "sent", "open": "false", "group_by": "client,month"},
        )
        self.assertEqual(query_of(include_removed=False, group_by=()), {})
        with self.assertRaisesRegex(ValueError, "zone"):
            query_of(updated_since=datetime.datetime(2026, 10, 2))

    def test_numbers_are_exact(self) -> None:
        text = b'{"gross_amount":"12345678901234567890.10","hours":7,"billable_hours":0.10000000000000000001,"pay_rate":null,"packages":[{"hours_remaining":0.0000001,"id":"1.00"}],"x":0.1}'
        row = read_json(text, "/v1/x")
        self.assertEqual(row["gross_amount"], Decimal("12345678901234567890.10"))
        self.assertIsInstance(row["hours"], Decimal)
        self.assertEqual(row["x"], Decimal("0.1"))
        del row["x"]
        self.assertEqual(ledgerfeed.write_json(row), text.decode().replace(',"x":0.1', ""))
        for bad in b'{"amount":"many"}', b'{"amount":[]}', b"[]", b"<html>":
            with self.assertRaises(ledgerfeed.UnexpectedAnswer):
                read_json(bad, "/v1/x")

    def test_no_type_has_a_float(self) -> None:
        hints = [typing.get_type_hints(c) for c in vars(types).values() if inspect.isclass(c) and typing.is_typeddict(c)]
        self.assertGreater(len(hints), 20)
        self.assertNotIn("float", str(hints))
        self.assertGreater(str(hints).count("Decimal"), 20)


class Lists(unittest.TestCase):
    def test_a_page_in_another_form(self) -> None:
        for body in "{}", "[]", '{"data":[1],"has_more":false,"next_cursor":"c"}', page(cursor="", more=True):
            with Server(status(200, body)) as server, ledgerfeed.Client(server.url, "k") as api:
                with self.assertRaises(ledgerfeed.UnexpectedAnswer):
                    list(api.invoices())

    def test_whole_lists_without_their_end(self) -> None:
        row, last = '{"id":"in_1"}\n', '{"has_more":false,"next_cursor":"c"}\n'
        for answer, good in [
            (chunked(row, last), True), (chunked(row[:5], row[5:] + last.strip()), True), (chunked(last), True), (chunked(row, last, row), False),
            (chunked(), False), (chunked(row), False), (chunked(row, last[:20]), False), (chunked(row, last, end=False), False),
            (chunked("<html>"), False), (cut_after(status(200, row + last, Content_Length="1000")), False),
        ]:  # fmt: skip
            with Server(answer) as server, ledgerfeed.Client(server.url, "k") as api:
                whole = api.invoices(limit=5).whole()
                if good:
                    self.assertLess(len(list(whole)), 2)
                else:
                    with self.assertRaises(ledgerfeed.BrokenOff):
                        list(whole)
                self.assertEqual(whole.cursor, "c" if good else "")
                self.assertEqual(server.requests[0].path, "/v1/invoices.ndjson")

    def test_followers_wait(self) -> None:
        clock = Waits()
        rows = '{"id":"in_1"}', '{"id":"in_2","removed":true,"updated_at":"2026-10-02T09:15:00.120Z"}'
        with Server(status(200, page(*rows)), status(200, page(), Preference_Applied="wait=25"), status(200, page())) as server:
            with ledgerfeed.Client(server.url, "k", **clock.options()) as api:
                saved: list[str] = []

                class State:
                    def load(self) -> str:
                        return "b"

                    def save(self, cursor: str) -> None:
                        saved.append(cursor)

                pages = api.invoices().follow(State())
                first = next(pages)
                self.assertEqual(([r["id"] for r in first.rows], [r["id"] for r in first.removed], saved), (["in_1"], ["in_2"], []))
                for _ in range(3):
                    next(pages)
        self.assertEqual((saved, clock.list), (["c"], [4.0]))
        self.assertEqual([r.headers["Prefer"] for r in server.requests], [None, "wait=25", "wait=25", "wait=25"])
        self.assertEqual({r.path for r in server.requests}, {"/v1/invoices?cursor=b&include=removed", "/v1/invoices?cursor=c&include=removed"})

    def test_a_place_in_a_file(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            state = ledgerfeed.FileState(os.path.join(folder, "place"))
            self.assertIsNone(state.load())
            for cursor in "a", "b":
                state.save(cursor)
                self.assertEqual(state.load(), cursor)
            self.assertEqual(os.listdir(folder), ["place"])
        with self.assertRaises(FileNotFoundError):
            state.save("c")
        own = ledgerfeed.LoadOnly(lambda: "x")
        own.save("y")
        self.assertEqual(own.load(), "x")


class Documents(unittest.TestCase):
    def test_the_readme_shows_the_samples(self) -> None:
        here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        with open(os.path.join(here, "README.md")) as file:
            blocks = [b.split("```")[0] for b in file.read().split("```python\n")[1:]]
        with io.open(os.path.join(here, "samples.py")) as file:
            lines = file.read().replace("\n    ", "\n")
        self.assertGreater(len(blocks), 6)
        for block in blocks:
            self.assertIn("\n" + block, lines)
