"""A proxy before a store, or a store of its own, that does to some requests what networks do."""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import re
import socket
import struct
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

FAULTS = ("503", "429", "500", "reset", "truncated", "short", "long", "stall")
"""What can be done: an answer of that status; a connection that breaks before, or in the middle of, the body; a body of
another length than was asked for, in an answer that knows no better; no answer until the client is gone."""
HOP = {"connection", "keep-alive", "transfer-encoding", "content-length", "host"}


@dataclass(frozen=True)
class Request:
    """What a client asked for."""

    method: str
    path: str
    range: str | None
    number: int

    @property
    def is_data(self) -> bool:
        """Whether it is for the bytes of an object."""
        return self.method == "GET" and (self.range is not None or "alt=media" in self.path)


@dataclass
class Answer:
    status: int
    headers: list[tuple[str, str]] = field(default_factory=list)
    body: bytes = b""


class Server(ThreadingHTTPServer):
    """Says nothing of clients that are gone: some are meant to be."""

    daemon_threads = True
    request_queue_size = 128
    """Many connections may come at once: one that finds no room is tried again after a whole second."""

    def handle_error(self, request: object, client_address: object) -> None:
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class Proxy:
    """Passes requests on to `upstream`, or answers from `files`; `fault(request)` names what to do to it, if any."""

    def __init__(self, upstream: str | None = None) -> None:
        self.upstream = upstream
        self.files: dict[str, tuple[str, bytes]] = {}
        self.requests: list[Request] = []
        self.counts: Counter[str] = Counter()
        self.ranges = self.lengths = True
        self.fault: Callable[[Request], str | None] = lambda request: None
        self.before: Callable[[Request], None] = lambda request: None
        self.closed = threading.Event()
        self._lock = threading.Lock()
        self._tags = itertools.count()
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self) -> None:
                proxy.handle(self)

            do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = handle_any

            def log_message(self, format: str, *arguments: object) -> None:
                pass

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self._thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def put(self, name: str, data: bytes) -> str:
        """Have a file of our own, as another one than was there before; its URL."""
        self.files[f"/{name}"] = f'"{next(self._tags)}"', data  # both at once
        return f"{self.url}/{name}"

    def handle(self, handler: BaseHTTPRequestHandler) -> None:
        length = int(handler.headers.get("Content-Length") or 0)
        body = handler.rfile.read(length) if length else b""
        with self._lock:
            request = Request(handler.command, handler.path, handler.headers.get("Range"), len(self.requests))
            self.requests.append(request)
        self.before(request)
        fault = self.fault(request)
        if fault is not None:
            with self._lock:
                self.counts[fault] += 1
        if fault == "stall":
            self.closed.wait(300)
            handler.close_connection = True
            return
        if fault == "reset":
            reset(handler)
            return
        if fault in ("503", "429", "500", "403"):
            answer = Answer(int(fault), [("Content-Type", "text/plain")], b"try again")
        else:
            answer = self.own(handler) if self.upstream is None else self.passed_on(handler, body)
        send(handler, answer, fault)

    def own(self, handler: BaseHTTPRequestHandler) -> Answer:
        path = urlsplit(handler.path).path
        if path not in self.files:
            return Answer(404)
        tag, data = self.files[path]
        headers = [("ETag", tag), ("Accept-Ranges", "bytes")]
        bounds = re.fullmatch(r"bytes=(\d+)-(\d*)", handler.headers.get("Range") or "")
        if not self.lengths:
            return Answer(200, [("Transfer-Encoding", "chunked")], data)
        if bounds is None or not self.ranges:
            return Answer(200, headers, data)
        start, stop = int(bounds[1]), min(len(data), int(bounds[2] or len(data)) + 1)
        headers.append(("Content-Range", f"bytes {start}-{stop - 1}/{len(data)}"))
        return Answer(206, headers, data[start:stop])

    def passed_on(self, handler: BaseHTTPRequestHandler, body: bytes) -> Answer:
        asked = parse_qs(urlsplit(handler.path).query)
        if asked.get("alt") != ["media"]:
            return self._ask(handler.command, handler.path, body, handler.headers)
        while (
            True
        ):  # what the emulator of Google's store leaves out: whose the bytes are, which the store says with them
            name = urlsplit(handler.path).path.removeprefix("/download")
            about = self.describe_object(name)
            if not about or asked.get("generation", [about["generation"]]) != [about["generation"]]:
                return Answer(404)
            answer = self._ask(handler.command, handler.path, body, handler.headers)
            if self.describe_object(name) == about:
                hashes = f"crc32c={about['crc32c']},md5={about['md5Hash']}"
                kept = [each for each in answer.headers if each[0].lower() != "x-goog-hash"]
                answer.headers = [*kept, ("x-goog-generation", about["generation"]), ("x-goog-hash", hashes)]
                return answer

    def describe_object(self, path: str) -> dict[str, str]:
        """What Google's store says of an object, nothing where there is none."""
        answer = self._ask("GET", path, b"", {})
        return json.loads(answer.body) if answer.status == 200 else {}  # type: ignore[no-any-return]

    def _ask(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        target = urlsplit(self.upstream)
        sent = {k: v for k, v in headers.items() if k.lower() not in HOP}
        if "Host" in headers:
            sent["Host"] = headers["Host"]  # which is part of what is signed
        connection = http.client.HTTPConnection(str(target.netloc), timeout=60)
        try:
            connection.request(method, path, body or None, sent)
            got = connection.getresponse()
            data = got.read()
            length = got.headers.get("Content-Length")
            kept = [(k, v) for k, v in got.getheaders() if k.lower() not in HOP]
            if method == "HEAD" and length is not None:
                kept.append(("Content-Length", length))
            return Answer(got.status, kept, data)
        finally:
            connection.close()

    @property
    def faults(self) -> int:
        """How many requests something was done to."""
        return self.counts.total()

    def asked(self, *methods: str) -> int:
        """How many requests there were of these methods that were not for data."""
        return sum(r.method in methods and not r.is_data for r in self.requests)

    def close(self) -> None:
        self.closed.set()
        self.server.shutdown()
        self.server.server_close()
        self._thread.join()


def reset(handler: BaseHTTPRequestHandler) -> None:
    """Close the connection such that the client's next read fails."""
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.connection.close()
    handler.close_connection = True
    handler.wfile = handler.rfile = open("/dev/null", "rb+")  # noqa: SIM115, PTH123 - what is left of it is closed by the server


def send(handler: BaseHTTPRequestHandler, answer: Answer, fault: str | None) -> None:
    body = answer.body
    if fault == "short":
        body = body[: len(body) // 2]
    elif fault == "long":
        body += b"?" * 1000
    has_length = any(k.lower() in ("content-length", "transfer-encoding") for k, _ in answer.headers)
    if ("Transfer-Encoding", "chunked") in answer.headers:
        body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        handler.send_response(answer.status)
        for name, value in answer.headers:
            handler.send_header(name, value)
        if not has_length:
            handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        if handler.command == "HEAD":
            return
        if fault == "truncated":
            handler.wfile.write(body[: len(body) // 2])
            handler.wfile.flush()
            reset(handler)
            return
        handler.wfile.write(body)
        handler.wfile.flush()


@contextlib.contextmanager
def running(upstream: str | None = None) -> Iterator[Proxy]:
    """A proxy, closed in the end."""
    proxy = Proxy(upstream)
    try:
        yield proxy
    finally:
        proxy.close()
