"""What can go wrong. Every error of this package is a LedgerfeedError."""

from __future__ import annotations

import email.utils
import json
import re
from collections.abc import Mapping
from email.message import Message

from .types import ParameterError


class LedgerfeedError(Exception):
    """The base of all errors of this package."""


class ConnectionFailed(LedgerfeedError):
    """The API could not be reached, or the connection broke, until the time for retries was over."""


class UnexpectedAnswer(LedgerfeedError):
    """The answer is not in the form of the API. A proxy may have written it."""


class BrokenOff(LedgerfeedError):
    """The last line of a whole list is missing, so rows are missing too. Read it from its start."""


class Closed(LedgerfeedError):
    """The client was closed while it was used."""


class ApiError(LedgerfeedError):
    """An answer that refuses the request. The class says why; so does code, for newer codes too.

    Tell request_id to the API's operator.
    """

    def __init__(
        self,
        path: str,
        status: int,
        *,
        code: str = "",
        detail: str = "",
        request_id: str = "",
        parameters: list[ParameterError] | None = None,
        retry_after: float = 0.0,
        moved_to: str = "",
    ) -> None:
        self.path, self.status, self.code, self.detail = path, status, code, detail
        self.request_id, self.parameters = request_id, parameters or []
        self.retry_after = retry_after  # seconds; 0: the answer does not say
        self._moved_to = moved_to  # the address that serves the workspace now
        super().__init__(path, status, code)

    def __str__(self) -> str:
        text = f"{self.path} answered {self.status}"
        if self.code:
            text += f" {self.code}"
        if self.detail:
            text += f": {self.detail}"
        text += "".join(f" {p['field']}: {p['message']}." for p in self.parameters)
        return text + (f" (request {self.request_id})" if self.request_id else "")


class LostPlace(ApiError):
    """A cursor cannot go on, but a new start can: see start_again of follow."""


class CursorReset(LostPlace):
    """The log went back to an earlier state."""


class CursorPermissions(LostPlace):
    """The key sees more than the one before."""


class EventsMissed(LostPlace):
    """The next event is no longer kept."""


class InvalidParameter(ApiError):
    """A parameter is wrong: see parameters."""


class CursorInvalid(ApiError):
    """The cursor was altered or is of another installation, or another parameter differs."""


class KeyInUrl(ApiError):
    """The address holds a key. Replace the key."""


class Unauthorized(ApiError):
    """The key is unknown, revoked or expired."""


class PermissionMissing(ApiError):
    """The key may not do this."""


class NotFound(ApiError):
    """There is nothing that the key may see."""


class MethodNotAllowed(ApiError):
    """The API is read only."""


class RateLimited(ApiError):
    """The key has used up its requests of the minute."""


class AddressSlowedDown(ApiError):
    """Too many refused keys came from this address."""


class PositionNotReached(ApiError):
    """The position of at_least was not reached in time."""


class HeadersTooLarge(ApiError):
    """The request is too large."""


class Busy(ApiError):
    """A share of the service is used up."""


class Unavailable(ApiError):
    """The service cannot answer at the moment."""


class Internal(ApiError):
    """A fault of the service."""


def _by_code(*bases: type[ApiError]) -> Mapping[str, type[ApiError]]:
    found = [c for base in bases for c in base.__subclasses__() if c is not LostPlace]
    return {re.sub(r"(?<!^)(?=[A-Z])", "_", c.__name__).lower(): c for c in found}


BY_CODE = _by_code(ApiError, LostPlace)


def refusal(path: str, status: int, headers: Message, body: bytes, now: float) -> ApiError:
    """Makes an ApiError of an answer. now is for a Retry-After that is a date."""
    try:
        problem = json.loads(body)
    except ValueError:
        problem = None
    if not isinstance(problem, dict):
        problem = {}
    detail = str(problem.get("detail", ""))
    if status // 100 == 3:
        detail = "a redirect, which this client does not follow: use the API's own address"
    code = str(problem.get("code", ""))
    return BY_CODE.get(code, ApiError)(
        path,
        status,
        code=code,
        detail=detail,
        request_id=headers.get("X-Request-Id") or "",
        parameters=problem.get("errors"),
        retry_after=_seconds(headers.get("Retry-After") or "", now),
        moved_to=str(problem.get("moved_to", "")),
    )


def _seconds(after: str, now: float) -> float:
    if after.isascii() and after.isdigit():
        return float(after)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(after).timestamp() - now)
    except ValueError:
        return 0.0
