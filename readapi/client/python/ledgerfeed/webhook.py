"""Webhooks: check that a message comes from the service, and handle each event once.

No framework is needed. Give the method, headers and raw body of a request to Webhook.receive, and
answer with what it returns.
"""

from __future__ import annotations

import base64
import binascii
import collections
import hashlib
import hmac
import json
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple, cast

from ._errors import LedgerfeedError
from .types import Event

TOLERANCE = 300  # seconds; it stops somebody who recorded a message from sending it again later
MAX_MESSAGE = 1 << 20  # bytes; messages carry only ids
MOST_SEEN = 100_000  # handled events that a receiver remembers
BRAND = "SERVICE"  # the word in the names of headers, if the service has no other

log = logging.getLogger("ledgerfeed")


class VerificationError(LedgerfeedError):
    """The message may come from somebody else. Refuse it."""


class NoSignature(VerificationError):
    """The message has no signature header that can be read."""


class BadSignature(VerificationError):
    """No signature of the message matches its body and a secret."""


class WrongTime(VerificationError):
    """The time of the message is more than 5 minutes from now."""


def verify(
    headers: Mapping[str, str], body: bytes, secrets: Sequence[str], *, now: float | None = None, brand: str = BRAND
) -> None:
    """Checks that a message comes from the service: one of its signatures is made with one of the
    secrets, and its time is within 5 minutes of now. body is the raw body, before any parsing. It
    takes SERVICE-Signature and the headers of Standard Webhooks; either is enough. While you rotate
    a secret, give the new one and the old one.

    No signature covers the headers, so do not rely on SERVICE-Log-Position for more than order.
    """
    if isinstance(secrets, str):
        raise TypeError("secrets: want a list")
    named = {name.lower(): value for name, value in headers.items()}
    now = time.time() if now is None else now
    try:
        _verify_own(named.get(f"{brand}-Signature".lower(), ""), body, secrets, now)
    except VerificationError:
        if not named.get("webhook-signature"):
            raise
        _verify_standard(named, body, secrets, now)


def _verify_own(header: str, body: bytes, secrets: Sequence[str], now: float) -> None:
    """Checks a header t=<seconds>,v1=<hex>,v1=<hex>."""
    parts = [part.strip().partition("=") for part in header.split(",")]
    stamp = next((value for name, _, value in reversed(parts) if name == "t"), "")
    signatures = []
    for name, _, value in parts:
        try:
            signatures += [binascii.unhexlify(value)] if name == "v1" else []
        except ValueError:
            pass
    _compare(stamp, f"{stamp}.", body, signatures, [secret.encode() for secret in secrets], now)


def _verify_standard(headers: Mapping[str, str], body: bytes, secrets: Sequence[str], now: float) -> None:
    """Checks the headers of Standard Webhooks (standardwebhooks.com)."""
    stamp, signatures = headers.get("webhook-timestamp", ""), []
    for text in headers["webhook-signature"].split():
        version, _, value = text.partition(",")
        if version == "v1":
            signatures.append(_unbase64(value))
    prefix = f"{headers.get('webhook-id', '')}.{stamp}."
    keys = [_unbase64(secret.removeprefix("whsec_")) for secret in secrets]
    _compare(stamp, prefix, body, [s for s in signatures if s], keys, now)


def _unbase64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return b""


def _compare(
    stamp: str, prefix: str, body: bytes, signatures: Sequence[bytes], keys: Sequence[bytes], now: float
) -> None:
    """Compares in constant time, and every signature with every key."""
    if not (stamp.isascii() and stamp.isdigit() and len(stamp) < 20) or not signatures:
        raise NoSignature("the message has no signature header that can be read")
    matches = False
    for key in filter(None, keys):  # anybody can sign with an empty key
        want = hmac.new(key, prefix.encode() + body, hashlib.sha256).digest()
        for signature in signatures:
            matches |= hmac.compare_digest(signature, want)
    if not matches:
        raise BadSignature("no signature of the message matches its body and a secret")
    if abs(now - int(stamp)) > TOLERANCE:
        raise WrongTime("the time of the message is more than 5 minutes from now")


@dataclass(frozen=True)
class Delivery:
    """A message that a webhook sent.

    id is the same on every attempt to deliver the event to this webhook.

    position is where the event stands in the workspace's log; 0 if the message does not say.
    Messages arrive in any order. To put them in order, keep the highest position that you have
    handled for each object, and pass over a message with a lower one. To read the state that
    includes this event, use at_least of the client: any server then waits until it has it.
    """

    event: Event
    id: str
    position: int


class Answer(NamedTuple):
    """What to answer to a request."""

    status: int
    text: str


class _Receiver:
    """What both receivers share: the check of a request, and which events were handled."""

    def __init__(
        self, secrets: Sequence[str], *, brand: str = BRAND, now: Callable[[], float] = time.time
    ) -> None:
        if not secrets or isinstance(secrets, str):
            raise ValueError("a receiver of webhooks needs a list of secrets")
        self._secrets, self._brand, self._now = secrets, brand, now
        self._lock = threading.Lock()
        # By event id: True when handled, False while it is being handled.
        self._events: collections.OrderedDict[str, bool] = collections.OrderedDict()

    def _read(self, method: str, headers: Mapping[str, str], body: bytes) -> Delivery | Answer:
        if method != "POST":
            return Answer(405, "want POST")
        try:
            if len(body) > MAX_MESSAGE:
                raise ValueError("the message is too long")
            verify(headers, body, self._secrets, now=self._now(), brand=self._brand)
            event = json.loads(body)
            if not isinstance(event, dict) or not isinstance(event.get("id"), str):
                raise ValueError("the message is no event")
        except (ValueError, VerificationError) as error:
            log.warning("a webhook's message was refused: %s", error)
            return Answer(400, str(error))
        named = {name.lower(): value for name, value in headers.items()}
        position = named.get(f"{self._brand}-Log-Position".lower(), "")
        identity = named.get(f"{self._brand}-Delivery-Id".lower(), "")
        delivery = Delivery(
            cast(Event, event), identity, int(position) if position.isascii() and position.isdigit() else 0
        )
        with self._lock:
            if event["id"] not in self._events:
                self._events[event["id"]] = False
                return delivery
            handled = self._events[event["id"]]
        return Answer(204, "") if handled else Answer(503, "another attempt for this event is being handled")

    @contextmanager
    def _handling(self, delivery: Delivery) -> Iterator[None]:
        """Remembers an event that was handled, and forgets one that was not."""
        identity = delivery.event["id"]
        try:
            yield
        except BaseException:
            with self._lock:
                del self._events[identity]
            raise
        with self._lock:
            self._events[identity] = True
            self._events.move_to_end(identity)
            while len(self._events) > MOST_SEEN and next(iter(self._events.values())):
                self._events.popitem(last=False)


class Webhook(_Receiver):
    """Receives webhooks, from several threads if you like.

    handle is called once for each event. The service waits 10 seconds for the answer, so put the
    event into a queue or a table if handling it takes longer. After an exception the service sends
    the message again later. An event can come twice if your program restarts between: to handle it
    exactly once, keep its id in your database, in the transaction that handles it.
    """

    def __init__(
        self,
        secrets: Sequence[str],
        handle: Callable[[Delivery], None],
        *,
        brand: str = BRAND,
        now: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(secrets, brand=brand, now=now)
        self._handle = handle

    def receive(self, method: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Answers 204 when an event is handled or was handled before, 400 if verify refuses the
        message, 500 if handle fails, and 503 if another attempt for the event is being handled."""
        delivery = self._read(method, headers, body)
        if isinstance(delivery, Answer):
            return delivery
        try:
            with self._handling(delivery):
                self._handle(delivery)
        except Exception:
            log.exception("the event %s could not be handled", delivery.event["id"])
            return Answer(500, "the event could not be handled")
        return Answer(204, "")


class AsyncWebhook(_Receiver):
    """Receives webhooks as Webhook does, with a coroutine function."""

    def __init__(
        self,
        secrets: Sequence[str],
        handle: Callable[[Delivery], Awaitable[None]],
        *,
        brand: str = BRAND,
        now: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(secrets, brand=brand, now=now)
        self._handle = handle

    async def receive(self, method: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Answers as Webhook.receive does."""
        delivery = self._read(method, headers, body)
        if isinstance(delivery, Answer):
            return delivery
        try:
            with self._handling(delivery):
                await self._handle(delivery)
        except Exception:
            log.exception("the event %s could not be handled", delivery.event["id"])
            return Answer(500, "the event could not be handled")
        return Answer(204, "")
