"""Reads the API: invoices, time entries, charges, payments, clients, contractors, credit and events
of one workspace. It also checks and receives the webhooks (ledgerfeed.webhook).

    api = Client("https://api.example.com", os.environ["API_KEY"])
    for invoice in api.invoices(status="sent"):
        print(invoice["number"], invoice["net_due"])

The package needs only the standard library. AsyncClient has the same methods for asyncio. There are
four ways to read a list:

  - To iterate over it gives the rows as they are now, and pages() gives the same in pages.
  - follow(state) goes on for as long as the program runs, and gives each row again when it changes.
    It keeps its place in the state, so that a later run goes on from there.
  - whole() gives a long list in one answer, as it was at one moment.

An amount of money and a number of hours are a Decimal, which is exact.

A key is missing if the API key may not see it: me() says which permissions the API key has. Never
read a missing key as zero.

A call is tried again if the service is busy, fails or cannot be reached, for as long as retry_for
says. An answer that refuses the request is an ApiError, whose class and code say why.
"""

from ._core import write_json
from ._errors import (
    AddressSlowedDown,
    ApiError,
    BrokenOff,
    Busy,
    Closed,
    ConnectionFailed,
    CursorInvalid,
    CursorPermissions,
    CursorReset,
    EventsMissed,
    HeadersTooLarge,
    Internal,
    InvalidParameter,
    KeyInUrl,
    LedgerfeedError,
    LostPlace,
    MethodNotAllowed,
    NotFound,
    PermissionMissing,
    PositionNotReached,
    RateLimited,
    Unauthorized,
    Unavailable,
    UnexpectedAnswer,
)
from ._list import FileState, List, Listing, LoadOnly, Page, State, Whole
from ._client import AsyncList, AsyncListing, AsyncState, AsyncWhole
from ._lists import AsyncClient, Client
from .webhook import AsyncWebhook, Delivery, VerificationError, Webhook, verify

__all__ = [
    "AddressSlowedDown",
    "ApiError",
    "AsyncClient",
    "AsyncList",
    "AsyncListing",
    "AsyncState",
    "AsyncWebhook",
    "AsyncWhole",
    "BrokenOff",
    "Busy",
    "Client",
    "Closed",
    "ConnectionFailed",
    "CursorInvalid",
    "CursorPermissions",
    "CursorReset",
    "Delivery",
    "EventsMissed",
    "FileState",
    "HeadersTooLarge",
    "Internal",
    "InvalidParameter",
    "KeyInUrl",
    "LedgerfeedError",
    "List",
    "Listing",
    "LoadOnly",
    "LostPlace",
    "MethodNotAllowed",
    "NotFound",
    "Page",
    "PermissionMissing",
    "PositionNotReached",
    "RateLimited",
    "State",
    "Unauthorized",
    "Unavailable",
    "UnexpectedAnswer",
    "VerificationError",
    "Webhook",
    "Whole",
    "verify",
    "write_json",
]
