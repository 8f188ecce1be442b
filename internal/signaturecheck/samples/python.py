# raw: the request's body as bytes, before any JSON parsing
# verify(request.headers["SERVICE-Signature"], raw, os.environ["WEBHOOK_SECRET"])
import hashlib
import hmac
import time


def verify(header: str, raw: bytes, secret: str) -> bool:
    parts = [part.strip().partition("=") for part in (header or "").split(",")]
    t = next((value for name, _, value in parts if name == "t"), "")
    if not (t.isascii() and t.isdigit()) or abs(time.time() - int(t)) > 300:
        return False
    want = hmac.new(secret.encode(), t.encode() + b"." + raw, hashlib.sha256).hexdigest()
    return any(
        hmac.compare_digest(value.encode(), want.encode())
        for name, _, value in parts
        if name == "v1"
    )
