"""The client, and the asynchronous one, which runs the same code in threads."""

from __future__ import annotations

import asyncio
import inspect
import itertools
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from typing import Any, Generic, Protocol, TypeVar

from ._core import Core
from ._http import Stop
from ._list import List, Listing, Page, State, Whole
from .types import RemovedRow

T = TypeVar("T")
C = TypeVar("C", bound="AsyncClientBase")
WHOLE_BATCH = 500  # rows of a whole list for which one thread is made


class ClientBase(Core):
    """What Client has besides the lists."""

    def close(self) -> None:
        """Closes the connections. Calls and followers of other threads end with Closed."""
        self._close()

    def __enter__(self: S) -> S:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


S = TypeVar("S", bound=ClientBase)


class AsyncClientBase(Core):
    """What AsyncClient has besides the lists."""

    async def close(self) -> None:
        """Closes the connections. Calls and followers of other tasks end with Closed."""
        self._close()

    async def __aenter__(self: C) -> C:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _aget(self, path: str, query: dict[str, str] | None = None) -> Any:
        own = self._stoppable()
        return await in_thread(own._stop, lambda: own._get(path, query))


async def in_thread(stop: Stop, call: Callable[[], T]) -> T:
    """Runs call in a thread, which has ended when this returns. A task that is cancelled ends it."""
    worker = ThreadPoolExecutor(1, thread_name_prefix="ledgerfeed")
    future = asyncio.wrap_future(worker.submit(call))
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        stop.end()
        await asyncio.wait([future])
        future.exception()  # what the thread says of its end interests nobody
        raise
    finally:
        worker.shutdown()


async def steps(stop: Stop, items: Generator[T, None, None]) -> AsyncGenerator[T, None]:
    """Iterates in threads, one for each item, so that none is there between them."""
    end = object()
    try:
        while True:
            item: Any = await in_thread(stop, lambda: next(items, end))
            if item is end:
                return
            yield item
    finally:
        stop.end()
        items.close()


class AsyncState(Protocol):
    """A State whose methods may be coroutine functions."""

    def load(self) -> str | None | Awaitable[str | None]:
        """See State."""

    def save(self, cursor: str) -> None | Awaitable[None]:
        """See State."""


class ThreadState:
    """A State for a thread, which has the loop run the coroutines of another one."""

    def __init__(self, state: AsyncState, loop: asyncio.AbstractEventLoop) -> None:
        self._state, self._loop = state, loop

    def load(self) -> str | None:
        return self._done(self._state.load())

    def save(self, cursor: str) -> None:
        self._done(self._state.save(cursor))

    def _done(self, result: T | Awaitable[T]) -> T:
        async def wait(result: Awaitable[T]) -> T:
            return await result

        if inspect.isawaitable(result):
            return asyncio.run_coroutine_threadsafe(wait(result), self._loop).result()
        return result  # type: ignore[return-value]  # isawaitable does not narrow


class AsyncListing(Generic[T]):
    """A list with its filters. Nothing is read before you iterate over it."""

    def __init__(self, core: Core, path: str, query: dict[str, str], removable: bool = False) -> None:
        self._core, self._path, self._query, self._removable = core, path, query, removable

    def _own(self) -> List[T]:
        return List(self._core._stoppable(), self._path, self._query, self._removable)

    async def __aiter__(self) -> AsyncGenerator[T, None]:
        """Reads the rows as they are now, in the fewest requests unless limit is given."""
        own = List[T](self._core._stoppable(), self._path, {"limit": "100", **self._query})
        async with aclosing(steps(own._core._stop, own.pages())) as pages:
            async for page in pages:
                for row in page.rows:
                    yield row

    def pages(self) -> AsyncGenerator[Page[T], None]:
        """Reads the list in pages, from its start to its end."""
        own = self._own()
        return steps(own._core._stop, own.pages())

    def follow(self, state: AsyncState, *, start_again: bool = False, once: bool = False) -> AsyncGenerator[Page[T], None]:
        """Keeps a copy of the list up to date. See Listing.follow. Methods of state that are no
        coroutine functions are called in a thread."""
        own = self._own()
        place = ThreadState(state, asyncio.get_running_loop())
        return steps(own._core._stop, own.follow(place, start_again=start_again, once=once))


class AsyncList(AsyncListing[T]):
    """A list that can also be read as a whole."""

    def whole(self) -> AsyncWhole[T]:
        """The list in one answer, as it was at one moment. See List.whole."""
        return AsyncWhole(self._own)


class AsyncWhole(AsyncIterable[T]):
    """A whole list in one answer. See Whole."""

    def __init__(self, own: Callable[[], List[T]]) -> None:
        self._own = own
        self.cursor, self.removed = "", list[RemovedRow]()

    async def __aiter__(self) -> AsyncGenerator[T, None]:
        self.cursor, self.removed = "", []
        own = self._own()
        whole = own.whole()
        async with aclosing(steps(own._core._stop, batches(whole))) as parts:
            async for batch in parts:
                for row in batch:
                    yield row
        self.cursor, self.removed = whole.cursor, whole.removed


def batches(whole: Whole[T]) -> Generator[list[T], None, None]:
    rows = iter(whole)
    while batch := list(itertools.islice(rows, WHOLE_BATCH)):
        yield batch
