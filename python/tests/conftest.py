"""A server whose answers a test decides, request by request."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from berth_client import Client

KEY = "bk_the-secret-of-these-tests"


@dataclass
class Asked:
    """One request."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


@dataclass
class Reply:
    """What the server answers. `cut`: it closes the connection without an answer."""

    body: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    cut: bool = False


Handler = Callable[[Asked], Any]


class ScriptedServer:
    """Answers with what `handler` returns, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.handler: Handler = lambda _: {}
        server = self

        class Answers(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                length = int(self.headers.get("content-length", 0))
                text = self.rfile.read(length)
                address = urlsplit(self.path)
                is_json = self.headers.get("content-type", "").startswith("application/json")
                headers = {name.lower(): value for name, value in self.headers.items()}
                body = json.loads(text) if is_json and text else text
                asked = Asked(self.command, address.path, dict(parse_qsl(address.query)), headers, body)
                server.asked.append(asked)
                made = server.handler(asked)
                reply = made if isinstance(made, Reply) else Reply(made)
                if reply.cut:
                    self.close_connection = True
                    self.connection.close()
                    return
                content = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
                self.send_response(reply.status)
                for name, value in {"Content-Type": "application/json", **reply.headers}.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer  # noqa: N815

            def log_message(self, *_: object) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_port}"
        threading.Thread(target=self._http.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    scripted = ScriptedServer()
    yield scripted
    scripted.close()


@pytest.fixture
def client(server: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    # The pauses between attempts are not what these tests are about.
    monkeypatch.setattr("berth_client._sync.transport.FIRST_DELAY_SECONDS", 0.001)
    monkeypatch.setattr("berth_client._aio.transport.FIRST_DELAY_SECONDS", 0.001)
    with Client(url=server.url, key=KEY) as one:
        yield one
