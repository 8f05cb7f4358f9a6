"""What the service writes down about its own running: one JSON object a line, without a word about anyone.

A line has the route's pattern and never its address (`/c/{id}`, not which), an account and an address as keyed hashes
that change with the secret, and of an error its kind and the lines of code it passed through, never what it said: a
database's error repeats the values. Whatever else a library says goes through the same form, with anything that looks
like a mail address, a token or an address of a person struck out.
"""

from __future__ import annotations

import json
import logging
import re
import secrets
import sys
import time
import traceback
from datetime import UTC, datetime
from typing import IO, Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shardwise.service.security import keyed

LOGGER = "shardwise.service"
_STRUCK = re.compile(
    r"[^\s\"'<>@]+@[^\s\"'<>@]+\.[^\s\"'<>@]+"  # mail addresses
    r"|\beyJ[\w-]+\.[\w-]+\.[\w-]+"  # tokens
    r"|\b[\w-]{32,}\b"  # secrets, ids, hashes
    r"|\b\d{1,3}(?:\.\d{1,3}){3}\b|\b(?:[0-9a-f]{1,4}:){3,}[0-9a-f:]+\b",
    re.IGNORECASE,
)


def struck(text: str) -> str:
    """The text without what could name a person or open a door."""
    return _STRUCK.sub("[…]", text)


class Lines(logging.Formatter):
    """A record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, Any] = {"time": moment, "level": record.levelname.lower(), "from": record.name}
        fields = getattr(record, "fields", None)
        if fields is not None:
            line |= {"event": record.msg, **fields}
        else:
            line["event"] = struck(record.getMessage())[:500]
        if record.exc_info and record.exc_info[1] is not None:
            line["error"] = error(record.exc_info[1])
        return json.dumps(line, ensure_ascii=False, default=str)


def error(raised: BaseException) -> dict[str, Any]:
    """An error's kind and its way through the code. Not its words: they hold what was being worked on."""
    frames = traceback.extract_tb(raised.__traceback__)[-12:]
    found: dict[str, Any] = {
        "kind": f"{type(raised).__module__}.{type(raised).__qualname__}",
        "at": [f"{_short(frame.filename)}:{frame.lineno} {frame.name}" for frame in frames],
    }
    cause = raised.__cause__ or (None if raised.__suppress_context__ else raised.__context__)
    if cause is not None:
        found["after"] = f"{type(cause).__module__}.{type(cause).__qualname__}"
    return found


def _short(path: str) -> str:
    return "/".join(path.rsplit("/", 3)[1:])


def configure(stream: IO[str] | None = None, *, level: int = logging.INFO) -> None:
    """Every logger writes such lines to standard error; the server's own access log, which has addresses, is off."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(Lines())
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger(LOGGER).setLevel(level)
    for name in ("uvicorn", "uvicorn.error"):
        logging.getLogger(name).handlers = []
        logging.getLogger(name).propagate = True
        logging.getLogger(name).setLevel(level)
    access = logging.getLogger("uvicorn.access")
    access.handlers, access.propagate, access.disabled = [], False, True


def event(name: str, **fields: object) -> None:
    """One thing that happened. Fields are counts, kinds and keyed hashes: whoever calls passes nothing personal."""
    logging.getLogger(LOGGER).info(name, extra={"fields": fields})


class Logged:
    """The ASGI layer that writes a line for each request, and gives the answer the request's number to be asked by."""

    def __init__(self, app: ASGIApp, *, secret: bytes) -> None:
        self.app, self._secret = app, secret

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        number, began, status = secrets.token_hex(6), time.monotonic(), 500
        scope["shardwise.request"] = number

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), (b"x-request", number.encode())]
            await send(message)

        failed: BaseException | None = None
        try:
            await self.app(scope, receive, sent)
        except Exception as raised:
            failed = raised
            raise
        finally:
            self._write(scope, number, status, time.monotonic() - began, failed)

    def _write(self, scope: Scope, number: str, status: int, seconds: float, failed: BaseException | None) -> None:
        route = scope.get("route")
        fields: dict[str, object] = {
            "request": number,
            "method": scope["method"],
            "route": getattr(route, "path", None) or "none",
            "status": status,
            "ms": round(seconds * 1000, 1),
            "address": keyed(self._secret, str((scope.get("client") or ("", 0))[0])),
        }
        if account := scope.get("shardwise.account"):
            fields["account"] = keyed(self._secret, str(account))
        if failed is not None:
            fields["error"] = error(failed)
        level = logging.ERROR if failed is not None or status >= 500 else logging.INFO
        logging.getLogger(LOGGER).log(level, "request", extra={"fields": fields})
