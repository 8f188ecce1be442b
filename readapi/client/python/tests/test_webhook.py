from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import threading
import unittest

import ledgerfeed
from ledgerfeed import webhook

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
NOW = 1_790_000_000


def message(identity: str) -> tuple[str, dict[str, str], bytes]:
    body = f'{{"id":"{identity}","type":"invoice.paid"}}'.encode()
    signature = hmac.new(SECRET.encode(), f"{NOW}.".encode() + body, hashlib.sha256).hexdigest()
    return "POST", {"service-signature": f"t={NOW},v1={signature}", "SERVICE-Log-Position": "42"}, body


class Receivers(unittest.TestCase):
    def setUp(self) -> None:
        logging.getLogger("ledgerfeed").setLevel(logging.CRITICAL + 1)
        self.addCleanup(logging.getLogger("ledgerfeed").setLevel, logging.NOTSET)

    def test_what_a_receiver_needs(self) -> None:
        for secrets in [], SECRET:
            with self.assertRaises(ValueError):
                webhook.Webhook(secrets, print)
        with self.assertRaises(TypeError):
            ledgerfeed.verify({}, b"", SECRET)

    def test_while_an_event_is_handled(self) -> None:
        """A second attempt is sent away, because the first one may still fail."""
        handling, go_on = threading.Event(), threading.Event()

        def handle(d: ledgerfeed.Delivery) -> None:
            handling.set()
            go_on.wait()

        receiver = webhook.Webhook([SECRET], handle, now=lambda: NOW)
        answers: list[int] = []
        thread = threading.Thread(target=lambda: answers.append(receiver.receive(*message("evt_1")).status))
        thread.start()
        handling.wait()
        self.assertEqual(receiver.receive(*message("evt_1")).status, 503)
        go_on.set()
        thread.join()
        self.assertEqual(answers + [receiver.receive(*message("evt_1")).status], [204, 204])

    def test_an_event_that_failed_is_new_again(self) -> None:
        calls = 0

        def handle(d: ledgerfeed.Delivery) -> None:
            nonlocal calls
            calls += 1
            if calls == 1:
                raise KeyError("x")
            if calls == 2:
                raise KeyboardInterrupt

        receiver = webhook.Webhook([SECRET], handle, now=lambda: NOW)
        self.assertEqual(receiver.receive(*message("evt_1")).status, 500)
        with self.assertRaises(KeyboardInterrupt):
            receiver.receive(*message("evt_1"))
        self.assertEqual([receiver.receive(*message("evt_1")).status for _ in range(2)], [204, 204])
        self.assertEqual(calls, 3)

    def test_a_coroutine(self) -> None:
        got: list[int] = []

        async def handle(d: ledgerfeed.Delivery) -> None:
            got.append(d.position)
            if len(got) == 1:
                raise ValueError

        async def send() -> list[int]:
            receiver = webhook.AsyncWebhook([SECRET], handle, now=lambda: NOW)
            return [(await receiver.receive(*message("evt_1"))).status for _ in range(3)]

        self.assertEqual((asyncio.run(send()), got), ([500, 204, 204], [42, 42]))

    def test_it_remembers_a_bounded_number(self) -> None:
        most, webhook.MOST_SEEN = webhook.MOST_SEEN, 2
        self.addCleanup(setattr, webhook, "MOST_SEEN", most)
        handled: list[str] = []
        receiver = webhook.Webhook([SECRET], lambda d: handled.append(d.event["id"]), now=lambda: NOW)
        for identity in "abcbca":
            receiver.receive(*message(identity))
        self.assertEqual(handled, list("abca"))

    def test_messages_that_are_no_events(self) -> None:
        receiver = webhook.Webhook([SECRET], print, now=lambda: NOW)
        for body in b"[]", b"{}", b"<html>", b" " * (2 << 20):
            signature = hmac.new(SECRET.encode(), f"{NOW}.".encode() + body, hashlib.sha256).hexdigest()
            self.assertEqual(receiver.receive("POST", {"Service-Signature": f"t={NOW},v1={signature}"}, body).status, 400)

    def test_another_brand(self) -> None:
        _, headers, body = message("evt_1")
        branded = {"ACME-Signature": headers["service-signature"]}
        ledgerfeed.verify(branded, body, [SECRET], now=NOW, brand="ACME")
        with self.assertRaises(webhook.NoSignature):
            ledgerfeed.verify(branded, body, [SECRET], now=NOW)
