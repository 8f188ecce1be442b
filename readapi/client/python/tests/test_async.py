from __future__ import annotations

import asyncio
import threading
import unittest
from contextlib import aclosing

import ledgerfeed
from server import Server, chunked, held, page, status


class Async(unittest.IsolatedAsyncioTestCase):
    def setUp(self) -> None:
        self.threads = set(threading.enumerate())

    def no_thread_is_left(self) -> None:
        left = [t for t in set(threading.enumerate()) - self.threads if t.name.startswith("ledgerfeed")]
        self.assertEqual(left, [])

    async def test_lists(self) -> None:
        with Server(status(200, page('{"id":"in_1"}', cursor="a", more=True)), status(200, page('{"id":"in_2"}'))) as server:
            async with ledgerfeed.AsyncClient(server.url, "k") as api:
                self.assertEqual([row["id"] async for row in api.invoices()], ["in_1", "in_2"])
            self.no_thread_is_left()
            self.assertEqual(server.connections, 1)

    async def test_whole(self) -> None:
        rows = ['{"id":"in_1"}\n'] * 1200
        with Server(chunked(*rows, '{"has_more":false,"next_cursor":"c"}\n'), chunked(*rows)) as server:
            async with ledgerfeed.AsyncClient(server.url, "k") as api:
                whole = api.invoices().whole()
                self.assertEqual(len([row async for row in whole]), 1200)
                self.assertEqual(whole.cursor, "c")
                with self.assertRaises(ledgerfeed.BrokenOff):
                    async for _ in whole:
                        pass
                self.assertEqual(whole.cursor, "")
            self.no_thread_is_left()

    async def test_cancelling_ends_a_request(self) -> None:
        for within in None, status(200, "{", Content_Length="9", Connection="close"):
            begun = threading.Event()
            with Server(held(begun, within)) as server:
                async with ledgerfeed.AsyncClient(server.url, "k") as api:
                    task = asyncio.create_task(api.me())
                    await asyncio.to_thread(begun.wait)
                    task.cancel()
                    with self.assertRaises(asyncio.CancelledError):
                        await task
                    self.no_thread_is_left()

    async def test_cancelling_ends_a_retry(self) -> None:
        begun = threading.Event()

        def refuse(r: object) -> None:
            begun.set()
            status(503, Retry_After="100")(r)  # type: ignore[arg-type]

        with Server(refuse) as server:
            async with ledgerfeed.AsyncClient(server.url, "k") as api:
                task = asyncio.create_task(api.me())
                await asyncio.to_thread(begun.wait)
                task.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await task
                self.no_thread_is_left()

    async def test_cancelling_ends_a_follower(self) -> None:
        begun = threading.Event()
        with Server(status(200, page()), held(begun)) as server:
            async with ledgerfeed.AsyncClient(server.url, "k") as api:

                async def follow() -> None:
                    async for _ in api.events().follow(ledgerfeed.LoadOnly(lambda: None)):
                        pass

                task = asyncio.create_task(follow())
                await asyncio.to_thread(begun.wait)
                task.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await task
                self.no_thread_is_left()
                begun.clear()
                closing = asyncio.create_task(self.close_after(begun, api))
                with self.assertRaises(ledgerfeed.Closed):
                    async with aclosing(api.events().follow(ledgerfeed.LoadOnly(lambda: None))) as pages:
                        async for _ in pages:
                            pass
                await closing
                self.no_thread_is_left()

    async def close_after(self, begun: threading.Event, api: ledgerfeed.AsyncClient) -> None:
        await asyncio.to_thread(begun.wait)
        await api.close()

    async def test_leaving_a_loop_leaves_no_thread(self) -> None:
        with Server(chunked('{"id":"in_1"}\n', '{"has_more":false,"next_cursor":"c"}\n'), status(200, page())) as server:
            async with ledgerfeed.AsyncClient(server.url, "k") as api:
                async for _ in api.invoices().whole():
                    break
                async for _ in api.invoices().follow(ledgerfeed.LoadOnly(lambda: "a")):
                    break
                self.no_thread_is_left()

    async def test_a_state_of_coroutines(self) -> None:
        loop = asyncio.get_running_loop()
        saved: list[str] = []

        class State:
            async def load(self) -> str | None:
                assert asyncio.get_running_loop() is loop
                return "b"

            async def save(self, cursor: str) -> None:
                saved.append(cursor)

        async def load() -> str:
            return "z"

        with Server(status(200, page())) as server:
            async with ledgerfeed.AsyncClient(server.url, "k") as api:
                async for _ in api.clients().follow(State(), once=True):
                    pass
                async for _ in api.clients().follow(ledgerfeed.LoadOnly(load), once=True):
                    pass
            self.assertEqual(saved, ["c"])
            self.assertEqual([r.path.partition("=")[2][0] for r in server.requests], ["b", "z"])
