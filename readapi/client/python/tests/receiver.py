"""A receiver of webhooks, for a test that sends real messages.

WEBHOOK_SECRET=whsec_… PORT=3000 python3 tests/receiver.py
"""

from __future__ import annotations

import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from ledgerfeed import Delivery, Webhook  # noqa: E402


def handle(delivery: Delivery) -> None:
    # At once, because several threads write.
    sys.stdout.write(f"event {delivery.event['id']} {delivery.event['type']}\n")
    sys.stdout.flush()


webhook = Webhook([os.environ["WEBHOOK_SECRET"]], handle)


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        answer = webhook.receive("POST", dict(self.headers), body)
        self.send_response(answer.status)
        self.end_headers()
        self.wfile.write(answer.text.encode())

    def log_message(self, format: str, *args: object) -> None:
        pass


ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Receiver).serve_forever()
