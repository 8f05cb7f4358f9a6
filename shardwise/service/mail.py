"""Mail: by the SMTP server of the settings, or into an outbox file of mode 0600 while only this machine can reach the
service.

Sending happens beside the request, so that the time of an answer tells nothing about whether there was anything to
send. What waits is kept in memory alone: a one-time link never lies in the database, and one that was lost is asked
for again.
"""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import smtplib
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from email.message import EmailMessage
from email.utils import format_datetime, make_msgid

from shardwise.record.tables import now
from shardwise.service.settings import Settings, Smtp

WAITING = 1000
SECONDS = 20
_log = logging.getLogger("shardwise.service")


@dataclass(frozen=True, kw_only=True)
class Letter:
    to: str
    subject: str
    text: str


class Mail:
    """The letter box. `send` returns at once."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._waiting: queue.Queue[Letter | None] = queue.Queue(WAITING)
        self._thread = threading.Thread(target=self._work, name="mail", daemon=True)
        self._begun = threading.Lock()

    def send(self, letter: Letter) -> None:
        """Puts a letter in line; where the line is full it is dropped, and the log says so."""
        with self._begun:
            if self._thread.ident is None:
                self._thread.start()
        try:
            self._waiting.put_nowait(letter)
        except queue.Full:
            _log.error("mail-dropped", extra={"fields": {"waiting": WAITING}})

    def close(self) -> None:
        """Sends what waits, for a few seconds."""
        if self._thread.ident is not None:
            with contextlib.suppress(queue.Full):
                self._waiting.put(None, timeout=5)
            self._thread.join(5)

    def _work(self) -> None:
        while (letter := self._waiting.get()) is not None:
            try:
                deliver(letter, self._settings)
            except Exception as error:  # an address that can't be written must not end the mail of everybody else
                _log.error("mail-failed", extra={"fields": {"kind": type(error).__name__}})


def deliver(letter: Letter, settings: Settings) -> None:
    """Hands a letter over now. Raises OSError or SMTPException where that fails."""
    message = EmailMessage()
    message["To"], message["Subject"], message["Date"] = letter.to, letter.subject, format_datetime(now())
    message["Auto-Submitted"] = "auto-generated"
    if settings.smtp is not None:
        message["From"] = settings.smtp.sender
        message["Message-ID"] = make_msgid(domain=settings.smtp.sender.rpartition("@")[2].strip("> ") or "localhost")
        message.set_content(letter.text)
        with connected(settings.smtp) as server:
            server.send_message(message)
    elif settings.loopback:
        message.set_content(letter.text, cte="8bit")
        descriptor = os.open(settings.outbox, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.fchmod(descriptor, 0o600)
            os.write(descriptor, message.as_bytes() + b"\n\n")
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def connected(smtp: Smtp) -> Iterator[smtplib.SMTP]:
    """A session with the mail server, encrypted as the settings say; the certificate is checked."""
    context = ssl.create_default_context()
    server: smtplib.SMTP
    if smtp.tls == "tls":
        server = smtplib.SMTP_SSL(smtp.host, smtp.port, timeout=SECONDS, context=context)
    else:
        server = smtplib.SMTP(smtp.host, smtp.port, timeout=SECONDS)
    with server:
        if smtp.tls == "starttls":
            server.starttls(context=context)
        if smtp.user is not None and smtp.password is not None:
            server.login(smtp.user, smtp.password.value)
        yield server
