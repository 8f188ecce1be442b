"""What is missing: finds gaps in the numbers of messages and fetches their events."""

import json
import threading
import time
import urllib.parse
import urllib.request

# How many numbers after a gap are remembered. With more the gap is closed at once.
MOST_AHEAD = 10_000


class Missing:
    """Follows the numbers of one webhook's messages.

    A real receiver keeps `expected` and `since` in its database, so that a gap
    that opens while it is not running is seen, too.
    """

    def __init__(self, api, key, wait, handle):
        self.api, self.key, self.wait, self.handle = api, key, wait, handle
        self.expected = None  # the lowest number that has not come
        self.since = None  # created_at of the event before it
        self.ahead = {}  # created_at of the events of higher numbers
        self.open_since = None  # when the gap was noticed
        self.lock = threading.Lock()

    def arrived(self, number, created_at):
        """Notes a message. One without a number, such as a test ping, is no part of it."""
        if not (number or "").isdigit():
            return
        number = int(number)
        with self.lock:
            if self.expected is None:
                self.expected = number
            if number >= self.expected:
                self.ahead[number] = created_at
                self.advance()

    def advance(self):
        moved = False
        while self.expected in self.ahead:
            self.since = self.ahead.pop(self.expected)
            self.expected += 1
            moved = True
        if not self.ahead:
            self.open_since = None
        elif moved or self.open_since is None:
            self.open_since = time.monotonic()

    def watch(self):
        """Fetches what a gap hides once it has stayed for the wait. Never returns."""
        while True:
            time.sleep(min(self.wait, 1))
            try:
                self.close_gap()
            except (OSError, ValueError) as error:  # tried again
                print("cannot fetch what is missing:", error, flush=True)

    def close_gap(self):
        with self.lock:
            if self.open_since is None:
                return
            if time.monotonic() - self.open_since < self.wait and len(self.ahead) < MOST_AHEAD:
                return
            highest = max(self.ahead)
            # An event that was sent as missed is older than the one before it.
            since, until = min(self.since, *self.ahead.values()), max(self.ahead.values())
        for event in self.events(since):
            if event["created_at"] > until:
                break
            self.handle(event)  # which leaves out those that it has handled
        with self.lock:
            self.ahead = {n: at for n, at in self.ahead.items() if n > highest}
            self.expected, self.since = highest + 1, until
            self.advance()

    def events(self, since):
        """The events published since a time, a page at a time."""
        query = {"created_since": since, "limit": "100"}
        while True:
            request = urllib.request.Request(
                self.api + "/v1/events?" + urllib.parse.urlencode(query), headers={"Authorization": "Bearer " + self.key})
            with urllib.request.urlopen(request, timeout=30) as answer:
                page = json.load(answer)
            yield from page["data"]
            if not page["has_more"]:
                return
            query["cursor"] = page["next_cursor"]  # belongs to the other parameters
