"""`shardwise serve`: one process that listens, grades and issues, and ends in order when it is told to."""

from __future__ import annotations

import socket

import uvicorn

from shardwise.service import logs
from shardwise.service.app import create_app, make_core
from shardwise.service.core import Core
from shardwise.service.settings import Settings
from translations import CourseError, Translator

PATIENCE = 20
"""Seconds that answers under way have to end."""


def serve(settings: Settings, text: Translator) -> None:
    """Serves until it is told to stop. Raises CourseError where it can't: unsafe settings, another schema, a port that
    is taken.
    """
    core = make_core(settings)
    try:
        listening = bound(settings.host, settings.port)
    except OSError as error:
        core.close()
        raise CourseError("shardwise.service-port-taken", host=settings.host, port=settings.port) from error
    print(text("shardwise.service-serving", url=settings.public_url), flush=True)
    if settings.smtp is None and settings.accounts != "off":
        print(text("shardwise.service-outbox", path=str(settings.outbox)), flush=True)
    if core.issuing is None:
        print(text("shardwise.service-no-issuer-yet"), flush=True)
    run(core, listening)


def run(core: Core, listening: socket.socket) -> None:
    """Answers on a socket until the process is told to stop."""
    logs.configure()
    config = uvicorn.Config(
        create_app(core=core),
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=True,
        proxy_headers=False,  # the wall believes only the proxies of the settings
        timeout_graceful_shutdown=PATIENCE,
        timeout_keep_alive=15,
        h11_max_incomplete_event_size=32_768,
    )
    with listening:
        uvicorn.Server(config).run(sockets=[listening])


def bound(host: str, port: int) -> socket.socket:
    """A socket that listens; 0 takes a port that the system gives."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
        made.listen(2048)
        made.setblocking(False)
    except OSError:
        made.close()
        raise
    return made
