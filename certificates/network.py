"""Asking an issuer's server: over TLS, once, no redirect, so many bytes, so many seconds."""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

from certificates import strict
from certificates.strict import Refused

Fetch = Callable[[str], bytes]
"""The bytes at an address. Raises Unreachable where there was no answer, and Refused for one that may not be used."""


class Unreachable(Exception):
    """No answer in time, or one that says there is nothing there."""


@dataclass(frozen=True, kw_only=True)
class Fetcher:
    """``seconds``: for all of it, from the name's look-up to the last byte. ``context``: for private roots."""

    most_bytes: int = 0
    seconds: float = 0
    context: ssl.SSLContext | None = None

    def __call__(self, address: str) -> bytes:
        """Raises Unreachable, or Refused for a redirect, for too many bytes and for anything but https."""
        found: list[bytes | Exception] = []
        opened: list[socket.socket] = []
        seconds = self.seconds or strict.rules()["list_seconds"]

        def ask() -> None:
            try:
                found.append(self._ask(address, opened, seconds))
            except Refused as refused:
                found.append(refused)
            except (Unreachable, OSError, http.client.HTTPException, ValueError) as error:
                found.append(Unreachable(str(error)))

        # A look-up has no time limit of its own, and a server may send a byte now and then for ever.
        asking = threading.Thread(target=ask, daemon=True)
        asking.start()
        asking.join(seconds)
        if not found:
            # Whoever still reads there reads no more, and closes it.
            with suppress(OSError, IndexError):
                opened[0].shutdown(socket.SHUT_RDWR)
            raise Unreachable("no whole answer in time")
        if isinstance(found[0], Exception):
            raise found[0]
        return found[0]

    def _ask(self, address: str, opened: list[socket.socket], seconds: float) -> bytes:
        most = self.most_bytes or strict.rules()["list_bytes"]
        parts = urlsplit(address)
        if parts.scheme != "https" or not parts.hostname or parts.username is not None:
            raise Refused("revocation-elsewhere")
        context = self.context or ssl.create_default_context()
        connection = http.client.HTTPSConnection(parts.hostname, parts.port, timeout=seconds, context=context)
        with closing(connection):
            connection.connect()
            opened.append(connection.sock)
            connection.request("GET", parts.path or "/", headers={"User-Agent": "shardwise", "Accept": "*/*"})
            with closing(connection.getresponse()) as response:
                if 300 <= response.status < 400:
                    raise Refused("revocation-redirect")
                if response.status != 200:
                    raise Unreachable(f"the server answered {response.status}")
                data = response.read(most + 1)
        if len(data) > most:
            raise Refused("revocation-large")
        return data
