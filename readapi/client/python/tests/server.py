"""A server whose answers a test gives."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Handler = Callable[["Request"], None]


class Request(BaseHTTPRequestHandler):
    """A request, which a test answers."""

    protocol_version = "HTTP/1.1"
    server: Server  # pyright: ignore[reportIncompatibleVariableOverride]

    def do_GET(self) -> None:
        with self.server.lock:
            self.server.requests.append(copy.copy(self))  # the next one of the connection has the same handler
            answers = self.server.answers
            answer = answers[min(len(self.server.requests), len(answers)) - 1]
        answer(self)

    def log_message(self, format: str, *args: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    """Gives answers in turn, the last one for ever, and keeps the requests."""

    daemon_threads = True

    def __init__(self, *answers: Handler) -> None:
        super().__init__(("127.0.0.1", 0), Request)
        self.lock = threading.Lock()
        self.answers, self.requests, self.connections = answers, list[Request](), 0
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.thread = threading.Thread(target=self.serve_forever, args=(0.01,))

    def get_request(self) -> tuple[object, object]:  # type: ignore[override]
        self.connections += 1
        return super().get_request()

    def __enter__(self) -> Server:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.thread.join()
        self.server_close()

    def handle_error(self, request: object, client_address: object) -> None:
        pass  # clients of these tests leave


def status(code: int, body: str = "", **headers: str) -> Handler:
    def answer(r: Request) -> None:
        r.send_response(code)
        for name, value in {"Content_Length": str(len(body.encode())), **headers}.items():
            r.send_header(name.replace("_", "-"), value)
        r.end_headers()
        r.wfile.write(body.encode())

    return answer


def chunked(*parts: str, end: bool = True) -> Handler:
    def answer(r: Request) -> None:
        r.send_response(200)
        r.send_header("Transfer-Encoding", "chunked")
        r.end_headers()
        for part in (*parts, "") if end else parts:
            r.wfile.write(f"{len(part.encode()):x}\r\n{part}\r\n".encode())
        r.close_connection = not end

    return answer


def cut(r: Request) -> None:
    r.close_connection = True


def cut_after(answer: Handler) -> Handler:
    """Answers, and then closes the connection although it has not said so."""

    def both(r: Request) -> None:
        answer(r)
        r.close_connection = True

    return both


def held(begun: threading.Event, within: Handler | None = None) -> Handler:
    """Never answers, or not to its end. The connection ends when the client ends it."""

    def answer(r: Request) -> None:
        if within:
            within(r)
            r.wfile.flush()
        begun.set()
        r.rfile.read(1)
        r.close_connection = True

    return answer


def page(*rows: str, cursor: str = "c", more: bool = False) -> str:
    return f'{{"data":[{",".join(rows)}],"has_more":{"true" if more else "false"},"next_cursor":"{cursor}"}}'
