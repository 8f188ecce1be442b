"""What is missing: finds gaps in the numbers of messages and fetches their events."""

import json
import re
import threading
import time
import urllib.parse
import urllib.request

# How many numbers after a gap are remembered. With more the gap is closed at once.
# A number that is further ahead than this is not believed: it is not signed.
MOST_AHEAD = 10_000

# How long the service keeps events, in seconds.
RETENTION = 30 * 24 * 3600


class Missing:
    """Follows the numbers of one webhook's messages.

    A real receiver keeps `expected` and `since` in its database, so that a gap
    that opens while it is not running is seen, too.
    """

    def __init__(self, api, key, wait, expected, handle):
        self.api, self.key, self.wait, self.handle = api, key, wait, handle
        self.expected = expected  # the lowest number that has not come; None: the first that comes
        self.since = None  # created_at of the event before it; None: not known
        self.ahead = {}  # created_at of the events of higher numbers
        self.highest = 0  # the highest number that came, also if ahead was full
        self.highest_at = None  # created_at of its event
        self.oldest = None  # the least created_at that ahead had no room for; None: it had
        self.open_since = None  # when the gap was noticed
        self.lock = threading.Lock()

    def arrived(self, number, created_at):
        """Notes a message. One without a number, such as a test ping, is no part of it."""
        if not self.api or not re.fullmatch("[1-9][0-9]{0,14}", number or ""):
            return
        number = int(number)
        with self.lock:
            if self.expected is None:
                self.expected = number
            known = max(self.highest, self.expected - 1)
            if number > known + MOST_AHEAD:
                print("message", number, "is too far ahead of", known, "and ignored", flush=True)
                return
            if number < self.expected:
                return
            if number > self.highest:
                self.highest, self.highest_at = number, created_at
            if len(self.ahead) < MOST_AHEAD or number == self.expected:
                self.ahead[number] = created_at
            elif self.oldest is None or created_at < self.oldest:
                self.oldest = created_at
            self.advance()

    def advance(self):
        moved = False
        while self.expected in self.ahead:
            self.since = self.ahead.pop(self.expected)
            self.expected += 1
            moved = True
        if self.expected > self.highest:
            self.open_since = self.oldest = None
        elif moved or self.open_since is None:
            self.open_since = time.monotonic()

    def watch(self):
        """Fetches what a gap hides once it has stayed for the wait. Never returns."""
        while True:
            time.sleep(min(self.wait, 1))
            try:
                self.close_gap()
            except Exception as error:  # whatever it is, this thread goes on and tries again
                print("cannot fetch what is missing:", repr(error), flush=True)

    def close_gap(self):
        with self.lock:
            if self.open_since is None:
                return
            if time.monotonic() - self.open_since < self.wait and len(self.ahead) < MOST_AHEAD:
                return
            highest, highest_at, since = self.highest, self.highest_at, self.since
            if since is None or min([*self.ahead.values(), self.oldest or since]) < since:
                # Events that were sent as missed are older than the one before the gap,
                # and the missing ones can be older still.
                since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - RETENTION))
        for event in self.events(since):  # to the end, because numbers are not in the order of time
            self.handle(event)  # which leaves out those that it has handled
        with self.lock:
            if self.expected > highest:
                return  # late messages closed the gap meanwhile
            self.ahead = {n: at for n, at in self.ahead.items() if n > highest}
            self.expected, self.since, self.open_since = highest + 1, highest_at, None
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
