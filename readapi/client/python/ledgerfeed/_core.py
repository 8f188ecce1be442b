"""One request, its retries and its cache, for the client and the asynchronous one."""

from __future__ import annotations

import collections
import copy
import http.client
import json
import logging
import random
import ssl
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timezone
from decimal import Decimal, InvalidOperation
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

from ._errors import ApiError, ConnectionFailed, UnexpectedAnswer, refusal
from ._http import Exchange, Pool, Stop, check_address
from .types import DECIMALS, NUMBERS

FIRST_RETRY, LONGEST_RETRY = 1.0, 30.0  # seconds; the wait doubles from the first to the longest
ANSWER_TIMEOUT = 60.0  # for one try, on top of the time that it asks the API to wait
MAX_ANSWER = 64 << 20  # bytes of a body; whole lists have no bound
WORTH_RETRY = (429, 500, 502, 503, 504)  # 502 and 504 come from a proxy before a service that is down

log = logging.getLogger("ledgerfeed")
log.addHandler(logging.NullHandler())  # silent unless the program wants to hear it
C = TypeVar("C", bound="Core")
T = TypeVar("T")


def read_json(text: bytes, path: str) -> dict[str, Any]:
    """Reads an object whose amounts and hours are Decimals. Nothing is a float."""
    try:
        value = json.loads(text, object_hook=_exact, parse_float=Decimal)
    except (ValueError, InvalidOperation, TypeError) as error:
        raise UnexpectedAnswer(f"read the answer of {path}: {error}") from error
    if not isinstance(value, dict):
        raise UnexpectedAnswer(f"read the answer of {path}: it is no object")
    return value


def _exact(row: dict[str, Any]) -> dict[str, Any]:
    for name in DECIMALS & row.keys():
        if row[name] is not None:
            row[name] = Decimal(row[name])
    return row


def write_json(value: Any, name: str = "") -> str:
    """Writes a row as the API does: hours as a number, an amount as a string, with all digits."""
    if isinstance(value, Decimal):
        return format(value, "f") if name in NUMBERS else f'"{value:f}"'
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{json.dumps(k)}:{write_json(v, k)}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(write_json(v, name) for v in value) + "]"
    return json.dumps(value)


def query_of(**parameters: object) -> dict[str, str]:
    """Writes parameters as a query. None and False for include_removed are not sent."""
    query = {}
    for name, value in parameters.items():
        if value is None or value == () or value == []:
            continue
        if name == "include_removed":
            if value:
                query["include"] = "removed"
            continue
        query[name] = _text(name, value)
    return query


def _text(name: str, value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueError(f"{name}: want a time with its zone, such as datetime.now(timezone.utc)")
        utc = value.astimezone(timezone.utc)
        return f"{utc:%Y-%m-%dT%H:%M:%S}.{utc.microsecond // 1000:03d}Z"
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value))
    return str(value)


@dataclass(frozen=True)
class Answer:
    """An answer with status 200."""

    headers: http.client.HTTPMessage
    body: bytes


class Cache:
    """Keeps the newest answers by their address, for conditional requests."""

    def __init__(self, most: int) -> None:
        self._most, self._lock = most, threading.Lock()
        self._by_url: collections.OrderedDict[str, Answer] = collections.OrderedDict()

    def get(self, url: str) -> Answer | None:
        with self._lock:
            if url in self._by_url:
                self._by_url.move_to_end(url)
            return self._by_url.get(url)

    def put(self, url: str, answer: Answer) -> None:
        if not self._most or not answer.headers["ETag"]:
            return
        with self._lock:
            self._by_url[url] = answer
            self._by_url.move_to_end(url)
            if len(self._by_url) > self._most:
                self._by_url.popitem(last=False)


@dataclass
class Shared:
    """What all copies of a client share."""

    base: str  # the API's address, without a slash at its end
    pool: Pool
    cache: Cache
    stops: weakref.WeakSet[Stop]


class Core:
    """Makes requests. Several threads can use it."""

    def __init__(
        self,
        url: str,
        key: str,
        *,
        retry_for: float = 120.0,
        cache_entries: int = 0,
        user_agent: str = "",
        ssl_context: ssl.SSLContext | None = None,
        now: Callable[[], float] = time.time,
        sleep: Callable[[float], None] | None = None,
        random: Callable[[], float] = random.random,
    ) -> None:
        """Makes a client of an API's address, such as https://api.example.com, and an API key. Only
        an address of this machine may have http://, because it carries the key in plain text.

        retry_for is how many seconds one call goes on trying; 0 means one try.

        cache_entries is how many answers the client keeps. If it has an answer already, it asks
        whether that one is still right, which saves the transfer.

        now, sleep and random are for tests.
        """
        self._shared = Shared(check_address(url), Pool(ssl_context), Cache(cache_entries), weakref.WeakSet())
        self._headers = {"Authorization": f"Bearer {key}", "User-Agent": f"ledgerfeed-python {user_agent}".strip()}
        self._retry_for, self._now, self._sleeper, self._random = retry_for, now, sleep, random
        self._stop = Stop()
        self._shared.stops.add(self._stop)

    def at_least(self: C, position: int) -> C:
        """Returns a client whose answers are from the log's position or a later one, on whichever
        server they come from. With the position of a Delivery you read the state that includes its
        event."""
        at = copy.copy(self)
        at._headers = {**self._headers, "Log-Position-At-Least": str(position)}
        return at

    def _stoppable(self: C) -> C:
        """Returns a client whose requests can be ended alone."""
        self._stop.check()
        own = copy.copy(self)
        own._stop = Stop()
        self._shared.stops.add(own._stop)
        return own

    def _close(self) -> None:
        for stop in list(self._shared.stops):
            stop.end()
        self._shared.pool.close()

    def _get(self, path: str, query: Mapping[str, str] | None = None) -> Any:
        """Reads one object."""
        return read_json(self._read(path, query or {}).body, path)

    def _read(self, path: str, query: Mapping[str, str], wait: int = 0) -> Answer:
        """Reads an answer, which the API may hold for some seconds while nothing is new."""
        return self._retry(lambda: self._try(path, query, wait))

    def _open(self, path: str, query: Mapping[str, str]) -> Exchange:
        """Sends a request whose body the caller reads."""

        def once() -> Exchange:
            exchange = self._send(path, query, {}, ANSWER_TIMEOUT)
            if exchange.status == 200:
                return exchange
            raise refusal(path, exchange.status, exchange.headers, self._body(path, exchange), self._now())

        return self._retry(once)

    def _retry(self, once: Callable[[], T]) -> T:
        """Calls once until it succeeds, for as long as retry_for allows."""
        until, wait = self._now() + self._retry_for, FIRST_RETRY
        while True:
            try:
                return once()
            except (ApiError, ConnectionFailed) as error:
                pause = self._pause_after(error, wait)
                if pause is None or self._now() + pause > until:
                    raise
                log.warning("a request failed and is tried again in %.1f s: %s", pause, error)
            self._sleep(pause)
            wait = min(2 * wait, LONGEST_RETRY)

    def _pause_after(self, error: Exception, wait: float) -> float | None:
        """How long to wait before the next try, at random, so that the clients of a service that
        comes back do not come at the same moment. None: a retry changes nothing."""
        spread = self._random() * wait / 2
        if not isinstance(error, ApiError):
            return None if isinstance(error.__cause__, ssl.SSLCertVerificationError) else wait / 2 + spread
        if error.status == 503 and error._moved_to:
            try:
                self._shared.base = check_address(error._moved_to)  # with its keys and cursors
                return wait / 2 + spread
            except ValueError:
                pass
        return max(wait / 2, error.retry_after) + spread if error.status in WORTH_RETRY else None

    def _sleep(self, seconds: float) -> None:
        self._stop.check()
        (self._sleeper or self._stop.sleep)(seconds)

    def _try(self, path: str, query: Mapping[str, str], wait: int) -> Answer:
        """Sends a request once."""
        headers = {"Prefer": f"wait={wait}"} if wait else {}
        address = f"{self._shared.base}{path}?{urlencode(sorted(query.items()))}"
        kept = None if wait else self._shared.cache.get(address)
        if kept:
            headers["If-None-Match"] = kept.headers["ETag"]
        exchange = self._send(path, query, headers, ANSWER_TIMEOUT + wait)
        body = self._body(path, exchange)
        if exchange.status == 200:
            answer = Answer(exchange.headers, body)
            self._shared.cache.put(address, answer)
            return answer
        if exchange.status == 304 and kept:
            return Answer(exchange.headers, kept.body)
        raise refusal(path, exchange.status, exchange.headers, body, self._now())

    def _send(self, path: str, query: Mapping[str, str], headers: Mapping[str, str], timeout: float) -> Exchange:
        target = path + ("?" + urlencode(sorted(query.items())) if query else "")
        try:
            return self._shared.pool.get(
                self._shared.base, target, {**self._headers, **headers}, timeout, self._stop
            )
        except (OSError, http.client.HTTPException) as error:
            raise ConnectionFailed(f"{path}: {error or type(error).__name__}") from error

    def _body(self, path: str, exchange: Exchange) -> bytes:
        until, parts, length = time.monotonic() + ANSWER_TIMEOUT, [], 0
        try:
            for part in exchange.chunks():
                parts.append(part)
                length += len(part)
                if length > MAX_ANSWER:
                    raise UnexpectedAnswer(f"{path}: the answer is too long")
                if time.monotonic() > until:
                    raise ConnectionFailed(f"{path}: there was no whole answer in time")
            return b"".join(parts)
        except (OSError, http.client.HTTPException) as error:
            self._stop.check()
            raise ConnectionFailed(f"{path}: the answer was broken off: {error}") from error
        finally:
            exchange.close()


def segment(text: str) -> str:
    """An id as a part of a path."""
    return quote(text, safe="")
