"""Lists: rows, pages, followers and whole lists. The asynchronous client runs this code, too."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Generic, Protocol, TypeVar, cast

from ._core import Core, log, read_json
from ._errors import BrokenOff, CursorInvalid, LostPlace, UnexpectedAnswer
from ._http import lines
from .types import RemovedRow

IDLE_WAIT = 25  # seconds that the API is asked to hold its answer while nothing is new
UNHELD_WAIT = 4.0  # seconds, about, if it does not hold its answer

T = TypeVar("T")
L = TypeVar("L", covariant=True)


class State(Protocol):
    """Keeps the place of one follower of one list with the same parameters."""

    def load(self) -> str | None:
        """Returns the cursor that was saved last. None or "": the follower begins at the start."""

    def save(self, cursor: str) -> None:
        """Keeps a cursor. It is called after the body of the loop has taken a page over."""


class FileState:
    """Keeps the place in a file, which it replaces as a whole."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = os.fspath(path)

    def load(self) -> str | None:
        try:
            with open(self._path, encoding="ascii") as file:
                return file.read().strip()
        except FileNotFoundError:
            return None

    def save(self, cursor: str) -> None:
        folder, name = os.path.split(self._path)
        handle, made = tempfile.mkstemp(dir=folder or ".", prefix=name + ".")
        try:
            with open(handle, "w", encoding="ascii") as file:
                file.write(cursor + "\n")
                file.flush()
                os.fsync(handle)
            os.replace(made, self._path)  # after a power cut the old place may be back, which is safe
        except BaseException:
            os.unlink(made)
            raise


class LoadOnly(Generic[L]):
    """A State for a caller who saves page.cursor himself, in the transaction in which he saves the
    rows. load may be a coroutine function for the asynchronous client."""

    def __init__(self, load: Callable[[], L]) -> None:
        self._load = load

    def load(self) -> L:
        return self._load()

    def save(self, cursor: str) -> None:
        """Does nothing."""


@dataclass
class Page(Generic[T]):
    """A part of a list."""

    rows: list[T]
    # Rows that were deleted or that the key may no longer see. Only followers and lists with
    # include_removed have them. A page has each id once, here or in rows.
    removed: list[RemovedRow]
    cursor: str  # goes on after this page
    more: bool  # there are rows after this page now
    position: int  # the position of the log that the page shows; 0: the answer does not say
    # Why a follower has begun again before this page. Empty your copy of the list before you take
    # this page over: not all rows of the copy come again.
    restarted: LostPlace | CursorInvalid | None = None
    _held: bool = field(default=False, repr=False)  # the API held the answer, or would have


class Listing(Generic[T]):
    """A list with its filters. Nothing is read before you iterate over it."""

    def __init__(self, core: Core, path: str, query: dict[str, str], removable: bool = False) -> None:
        self._core, self._path, self._query, self._removable = core, path, query, removable

    def __iter__(self) -> Iterator[T]:
        """Reads the rows as they are now, in the fewest requests unless limit is given."""
        for page in Listing[T](self._core, self._path, {"limit": "100", **self._query}).pages():
            yield from page.rows

    def pages(self) -> Generator[Page[T], None, None]:
        """Reads the list in pages, from its start to its end."""
        cursor, more = "", True
        while more:
            page = self._page(self._query, cursor)
            yield page
            cursor, more = page.cursor, page.more

    def follow(self, state: State, *, start_again: bool = False, once: bool = False) -> Generator[Page[T], None, None]:
        """Keeps a copy of the list up to date. It gives what has changed since the place in state,
        and then waits for more. The place is saved when the body of the loop has ended and the loop
        goes on. So leave the loop by an exception or break when you could not take a page over: the
        next run gets that page again.

        A page without rows says that nothing is new. Follow without filters that a row can stop
        matching: no page would tell you.

        With start_again, the follower begins at the start of the list if the API no longer knows
        what it has missed (LostPlace). So does CursorInvalid of the cursor that the state had: the
        workspace is at another installation, or the arguments are others. The next page then has
        restarted. Otherwise the follower ends with that error.

        With once, the follower ends when there is nothing more, for a program that runs now and then.
        """
        query = {**self._query, "include": "removed"} if self._removable else self._query
        cursor, wait = state.load() or "", 0  # no wait until the end is reached
        kept = True  # the cursor is the one that the state had
        restarted: LostPlace | CursorInvalid | None = None
        while True:
            try:
                page = self._page(query, cursor, wait)
            except (LostPlace, CursorInvalid) as lost:
                # An invalid cursor that this follower was given is a mistake; one that was kept may be
                # of another installation.
                if not start_again or not cursor or isinstance(lost, CursorInvalid) and not kept:
                    raise
                log.warning("a follower of %s begins again at the start of its list: %s", self._path, lost)
                cursor, wait, restarted = "", 0, lost
                continue
            page.restarted, restarted, kept = restarted, None, False
            yield page
            if page.cursor != cursor:
                state.save(page.cursor)
            cursor = page.cursor
            if once and not page.more:
                return
            if wait and not page.more and not page._held:  # too many requests wait already
                self._core._sleep(UNHELD_WAIT / 2 + self._core._random() * UNHELD_WAIT)
            wait = 0 if page.more else IDLE_WAIT

    def _page(self, query: dict[str, str], cursor: str, wait: int = 0) -> Page[T]:
        answer = self._core._read(self._path, {**query, "cursor": cursor} if cursor else query, wait)
        body = read_json(answer.body, self._path)
        data, more, following = body.get("data"), body.get("has_more"), body.get("next_cursor")
        if not isinstance(data, list) or not isinstance(more, bool) or not isinstance(following, str):
            raise UnexpectedAnswer(f"read a page of {self._path}: data, has_more or next_cursor is missing")
        if not all(isinstance(row, dict) for row in data):
            raise UnexpectedAnswer(f"read a page of {self._path}: a row is no object")
        if more and following == cursor:  # the list would never end
            raise UnexpectedAnswer(f"read a page of {self._path}: there is more, but with the same cursor")
        position = answer.headers["Log-Position"] or ""
        return Page(
            rows=[row for row in data if row.get("removed") is not True],
            removed=[row for row in data if row.get("removed") is True],
            cursor=following,
            more=more,
            position=int(position) if position.isdigit() else 0,
            _held=bool(answer.headers["Preference-Applied"]),
        )


class List(Listing[T]):
    """A list that can also be read as a whole."""

    def whole(self) -> Whole[T]:
        """The list in one answer, as it was at one moment. It is streamed, so its length does not
        matter. limit has no meaning for it."""
        query = {name: value for name, value in self._query.items() if name != "limit"}
        return Whole(self._core, self._path + ".ndjson", query)


class Whole(Iterable[T]):
    """A whole list in one answer. Iterate over it to send the request and read the rows. It ends
    with BrokenOff if rows are missing.

    cursor and removed are known when the rows have ended. A follower with the same parameters goes
    on from the cursor. Followers include removed rows, so give the whole list include_removed, if
    it has that.
    """

    def __init__(self, core: Core, path: str, query: dict[str, str]) -> None:
        self._core, self._path, self._query = core, path, query
        self.cursor, self.removed = "", list[RemovedRow]()

    def __iter__(self) -> Iterator[T]:
        self.cursor, self.removed = "", []
        exchange, last = self._core._open(self._path, self._query), ""
        try:
            for line in lines(exchange.chunks()):
                if last:
                    raise BrokenOff(f"{self._path}: there is more after the last line")
                row = read_json(line, self._path)
                if isinstance(row.get("has_more"), bool) and isinstance(row.get("next_cursor"), str):
                    last = row["next_cursor"]
                elif row.get("removed") is True:
                    self.removed.append(cast(RemovedRow, row))
                else:
                    yield cast(T, row)
        except (OSError, HTTPException, UnexpectedAnswer) as error:
            self._core._stop.check()
            raise BrokenOff(f"{self._path}: the list was broken off before its end: {error}") from error
        finally:
            exchange.close()
        if not last:
            raise BrokenOff(f"{self._path}: the list was broken off before its end")
        self.cursor = last
