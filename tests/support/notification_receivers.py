"""What messages are sent to in tests: real receivers on this machine that keep all they get."""

from __future__ import annotations

import contextlib
import json
import re
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from aiosmtpd.controller import Controller

from tests.support.reserved_ports import get_port_number, reserve_port


@dataclass
class Hook:
    """A web hook; ``answers`` are the statuses of the next requests, 200 when they are spent."""

    port: int = 0
    got: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    answers: list[int] = field(default_factory=list)
    retry_after: str = ""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    @property
    def ids(self) -> list[str]:
        return [headers["X-Perfci-Delivery"] for headers, _ in self.got]


@contextlib.contextmanager
def a_hook() -> Iterator[Hook]:
    hook = Hook()

    class Handler(Quiet):
        def do_POST(self) -> None:
            hook.got.append((dict(self.headers), self.body()))
            headers = {"Retry-After": hook.retry_after} if hook.retry_after else {}
            self.answer(hook.answers.pop(0) if hook.answers else 200, {}, headers)

    with serving(Handler) as hook.port:
        yield hook


@dataclass
class GitHub:
    """As much of GitHub's API as issues need."""

    port: int = 0
    issues: list[dict[str, Any]] = field(default_factory=list)
    comments: dict[int, list[dict[str, Any]]] = field(default_factory=dict)

    @property
    def api(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextlib.contextmanager
def a_github() -> Iterator[GitHub]:
    hub = GitHub()

    class Handler(Quiet):
        def do_GET(self) -> None:
            if not self.path.startswith("/repos/acme/model/"):
                return self.answer(404, {"message": "Not Found"})
            match = re.fullmatch(r"/repos/acme/model/issues/(\d+)/comments\?.*", self.path)
            return self.answer(200, hub.comments.get(int(match[1]), []) if match else hub.issues[::-1])

        def do_POST(self) -> None:
            sent = json.loads(self.body())
            match = re.fullmatch(r"/repos/acme/model/issues/(\d+)/comments", self.path)
            if match:
                url = f"https://github.com/acme/model/issues/{match[1]}#issuecomment-1"
                hub.comments.setdefault(int(match[1]), []).append(sent | {"id": 1, "html_url": url})
                return self.answer(201, hub.comments[int(match[1])][-1])
            number = len(hub.issues) + 1
            url = f"https://github.com/acme/model/issues/{number}"
            hub.issues.append(sent | {"number": number, "html_url": url})
            return self.answer(201, hub.issues[-1])

    with serving(Handler) as hub.port:
        yield hub


class Quiet(BaseHTTPRequestHandler):
    def body(self) -> bytes:
        return self.rfile.read(int(self.headers["Content-Length"] or 0))

    def answer(self, status: int, value: object, headers: Mapping[str, str] | None = None) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        for name, text in (headers or {}).items():
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


@contextlib.contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@dataclass
class Mailbox:
    port: int = 0
    got: list[EmailMessage] = field(default_factory=list)

    @property
    def ids(self) -> list[str]:
        return [str(mail["X-Perfci-Delivery"]) for mail in self.got]


@contextlib.contextmanager
def a_mailbox() -> Iterator[Mailbox]:
    """A mail server that takes everything."""
    box = Mailbox()

    class Handler:
        async def handle_DATA(self, server: object, session: object, envelope: Any) -> str:  # noqa: N802
            box.got.append(message_from_bytes(envelope.content, policy=policy.default))  # type: ignore[arg-type]
            return "250 OK"

    with reserve_port() as held:
        box.port = get_port_number(held)
        controller = Controller(Handler(), hostname="127.0.0.1", port=box.port, ready_timeout=120.0)
        controller.start()
        try:
            yield box
        finally:
            controller.stop()
