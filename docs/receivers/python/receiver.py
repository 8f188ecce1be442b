"""A receiver of webhooks in Python 3.9 or newer, standard library only.

    WEBHOOK_SECRET=whsec_... PORT=3000 python3 receiver.py

It speaks plain HTTP: put whatever ends TLS for you in front of it.
"""

import base64
import hashlib
import hmac
import json
import os
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SECRET = os.environ.get("WEBHOOK_SECRET", "")
STANDARD = os.environ.get("WEBHOOK_STANDARD") == "1"  # the headers of Standard Webhooks
BRAND = os.environ.get("WEBHOOK_BRAND", "SERVICE")

# How far, in seconds, a message's timestamp may be from our clock. It stops
# somebody who recorded a message from sending it again later.
TOLERANCE = 300


def fault(header, body, now):
    """Checks the signature header over the raw body, before any parsing.

    While a secret is rotated the header has several v1 values; one match is
    enough. Returns what is wrong, or None.
    """
    parts = [p.strip().partition("=") for p in (header or "").split(",")]
    stamp = next((value for name, _, value in parts if name == "t"), "")
    if not (stamp.isascii() and stamp.isdigit()):
        return "no timestamp"
    want = hmac.new(SECRET.encode(), stamp.encode() + b"." + body, hashlib.sha256).hexdigest()
    matches = False
    for name, _, value in parts:
        if name == "v1":
            # In constant time; bytes, because str has to be ASCII here.
            matches = hmac.compare_digest(value.encode(), want.encode()) or matches
    if not matches:
        return "no signature matches"
    if abs(now - int(stamp)) > TOLERANCE:
        return "the timestamp is too far from now"
    return None


def standard_fault(headers, body, now):
    """The same for the headers of Standard Webhooks: the key is base64 after
    whsec_, and so are the signatures, which are separated by spaces.
    """
    message_id, stamp = headers.get("webhook-id") or "", headers.get("webhook-timestamp") or ""
    if not (stamp.isascii() and stamp.isdigit()):
        return "no timestamp"
    key = base64.b64decode(SECRET[len("whsec_"):])
    signed = message_id.encode() + b"." + stamp.encode() + b"." + body
    want = b"v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest())
    matches = False
    for value in (headers.get("webhook-signature") or "").split():
        matches = hmac.compare_digest(value.encode(), want) or matches  # in constant time
    if not matches:
        return "no signature matches"
    if abs(now - int(stamp)) > TOLERANCE:
        return "the timestamp is too far from now"
    return None


# The same event can arrive twice. A real receiver keeps the ids in its
# database, in the transaction that handles the event; here the last ones.
MOST_SEEN = 100_000
seen = {}  # the events that were handled
lock = threading.Lock()  # also keeps lines of several threads apart


def first(ids, event_id):
    """Tells whether an id comes for the first time."""
    if event_id in ids:
        return False
    ids[event_id] = True
    if len(ids) > MOST_SEEN:
        del ids[next(iter(ids))]  # the oldest
    return True


def handle(event):
    """Handles an event once."""
    data = event["data"]
    with lock:
        if first(seen, event["id"]):
            # Put it into a queue of your own here and answer at once: an
            # answer later than 10 seconds counts as a failure.
            print("event", event["id"], event["type"], data["object_type"], data["object_id"], flush=True)


class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # keeps connections open

    def do_POST(self):
        length = int(self.headers.get("Content-Length") or 0)
        if length > 1 << 20:
            self.close_connection = True
            return self.answer(400, "more than 1 MiB")
        body = self.rfile.read(length)
        if STANDARD:
            wrong = standard_fault(self.headers, body, time.time())
        else:
            wrong = fault(self.headers.get(BRAND + "-Signature"), body, time.time())
        if wrong:
            return self.answer(400, wrong)
        try:
            event = json.loads(body)
            handle(event)
        except (ValueError, KeyError, TypeError):
            return self.answer(400, "not an event")
        self.answer(204, "")

    def answer(self, status, text):
        content = text.encode()
        self.send_response(status)
        if status != 204:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    if not SECRET:
        sys.exit("set WEBHOOK_SECRET to the webhook's signing secret")
    ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "3000"))), Receiver).serve_forever()
