"""Requests over kept connections, which another thread can end."""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

from ._errors import Closed

CONNECT_TIMEOUT = 10.0


def check_address(address: str) -> str:
    """Returns the address in the form in which paths follow."""
    try:
        url = urlsplit(address)
        host, _ = url.hostname, url.port
    except ValueError:
        url, host = urlsplit(""), None
    if not host or url.scheme not in ("https", "http") or "@" in url.netloc or url.query or url.fragment:
        raise ValueError("want the API's address, such as https://api.example.com")
    if url.scheme == "http" and host not in ("localhost", "::1") and not _loopback(host):
        raise ValueError(
            f"{url.netloc} would carry the key in plain text: want https://; http:// is for this machine alone"
        )
    return address.rstrip("/")


def _loopback(host: str) -> bool:
    try:
        return socket.inet_aton(host)[0] == 127 and host.count(".") == 3
    except OSError:
        return False


class Stop:
    """Ends the requests and waits that use it, from any thread."""

    def __init__(self) -> None:
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._used: set[socket.socket] = set()

    def check(self) -> None:
        if self._ended.is_set():
            raise Closed("the client was closed")

    def sleep(self, seconds: float) -> None:
        self._ended.wait(seconds)
        self.check()

    def use(self, used: socket.socket) -> None:
        with self._lock:
            self.check()
            self._used.add(used)

    def leave(self, used: socket.socket) -> None:
        with self._lock:
            self._used.discard(used)

    def end(self) -> None:
        with self._lock:
            self._ended.set()
            for used in self._used:
                try:  # wakes whoever reads; that of an SSLSocket would take its state away, too
                    socket.socket.shutdown(used, socket.SHUT_RDWR)
                except OSError:
                    pass  # the connection broke by itself


class Pool:
    """Keeps connections for the next request."""

    def __init__(self, context: ssl.SSLContext | None) -> None:
        self._context = context
        self._lock = threading.Lock()
        self._idle: dict[str, list[http.client.HTTPConnection]] = {}

    def get(self, base: str, target: str, headers: Mapping[str, str], timeout: float, stop: Stop) -> Exchange:
        """Sends a request, again if a kept connection was closed meanwhile."""
        while True:
            stop.check()
            with self._lock:
                idle = self._idle.get(base)
                connection = idle.pop() if idle else None
            kept, connection = connection is not None, connection or self._new(base)
            try:
                if not kept:
                    connection.connect()
                return Exchange(self, base, connection, target, headers, timeout, stop)
            except BaseException as error:
                connection.close()
                stop.check()
                if not kept or not isinstance(error, (ConnectionError, ssl.SSLError)):
                    raise

    def _new(self, base: str) -> http.client.HTTPConnection:
        url = urlsplit(base)
        if url.scheme == "http":
            return http.client.HTTPConnection(url.hostname or "", url.port, timeout=CONNECT_TIMEOUT)
        if self._context is None:
            self._context = ssl.create_default_context()
        return http.client.HTTPSConnection(
            url.hostname or "", url.port, timeout=CONNECT_TIMEOUT, context=self._context
        )

    def keep(self, base: str, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            self._idle.setdefault(base, []).append(connection)

    def close(self) -> None:
        with self._lock:
            for idle in self._idle.values():
                for connection in idle:
                    connection.close()
            self._idle.clear()


class Exchange:
    """A request that was sent, and its answer, whose body is still to be read."""

    def __init__(
        self,
        pool: Pool,
        base: str,
        connection: http.client.HTTPConnection,
        target: str,
        headers: Mapping[str, str],
        timeout: float,
        stop: Stop,
    ) -> None:
        self._pool, self._base, self._connection, self._stop = pool, base, connection, stop
        self._socket, self._read = connection.sock, False  # the connection may give its socket up early
        stop.use(self._socket)
        try:
            self._socket.settimeout(timeout)
            connection.request("GET", urlsplit(base).path + target, headers=dict(headers))
            self._response = connection.getresponse()
        except BaseException:
            stop.leave(self._socket)
            raise
        self.status, self.headers = self._response.status, self._response.headers

    def chunks(self) -> Iterator[bytes]:
        """Reads the body. A body that is broken off is an IncompleteRead."""
        while chunk := self._response.read1(1 << 16):
            yield chunk
        if self._response.length:
            raise http.client.IncompleteRead(b"", self._response.length)
        self._read = True

    def close(self) -> None:
        """Keeps the connection if the body was read, and closes it otherwise."""
        self._stop.leave(self._socket)
        self._response.close()
        if self._read and not self._response.will_close:
            self._pool.keep(self._base, self._connection)
        else:
            self._connection.close()


def lines(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Splits a body into its lines."""
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        yield from whole
    if rest:
        yield rest
