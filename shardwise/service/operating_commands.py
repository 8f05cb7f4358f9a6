"""`shardwise service backup|restore|delete-person|health`: what keeps the service alive and honest."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Context, Option

from shardwise.plan_options import Json, Lang, Printer
from translations import CourseError, formats

if TYPE_CHECKING:
    from shardwise.service.core import Core
    from shardwise.service.settings import Settings

File = Annotated[Path | None, Option("--settings", metavar="FILE", help="cli-serve-settings")]
HEALTH_SECONDS = 5


def add(
    service: typer.Typer,
    *,
    read: Callable[..., Settings],
    opened: Callable[..., AbstractContextManager[Core]],
    print_json: Printer,
    right_use: Callable[[], Any],
) -> None:
    """The commands, in the group `service`."""

    @service.command("backup", help="cli-service-backup")
    def backup(
        context: Context,
        file: Annotated[Path, Argument(metavar="FILE", help="cli-service-backup-file")],
        settings: File = None,
        as_json: Json = False,
        _lang: Lang = None,
    ) -> None:
        from shardwise.service import backup as room

        with opened(settings, right_use) as core:
            kept = room.backup(core.store, file, at=core.clock())
        if as_json:
            print_json({"file": str(file), "made": kept.made.isoformat(), "rows": dict(kept.rows)})
            return
        text = context.obj.text
        moment = f"{formats.date(kept.made.date(), text.language)}, {kept.made:%H:%M:%S} UTC"
        print(text("shardwise.service-backup-made", path=str(file), rows=kept.total, moment=moment))

    @service.command("restore", help="cli-service-restore")
    def restore(
        context: Context,
        file: Annotated[Path, Argument(metavar="FILE", help="cli-service-restore-file")],
        status: Annotated[
            list[Path] | None, Option("--status", metavar="LIST", help="cli-service-restore-status")
        ] = None,
        settings: File = None,
        as_json: Json = False,
        _lang: Lang = None,
    ) -> None:
        from shardwise.service import backup as room

        with right_use():
            found = read(settings)
        done = room.restore(found, file, published=status or ())
        if as_json:
            aside = None if done.aside is None else str(done.aside)
            print_json({"rows": done.rows, "erased": done.erased, "states": done.states, "aside": aside})
            return
        text = context.obj.text
        print(text("shardwise.service-restored", rows=done.rows, erased=done.erased, states=done.states))
        if done.aside is not None:
            print(text("shardwise.service-restored-aside", path=str(done.aside)))

    @service.command("delete-person", help="cli-service-delete")
    def delete_person(
        context: Context,
        who: Annotated[str, Argument(metavar="WHO", help="cli-service-delete-who")],
        yes: Annotated[bool, Option("--yes", help="cli-service-delete-yes")] = False,
        settings: File = None,
        as_json: Json = False,
        _lang: Lang = None,
    ) -> None:
        from shardwise.service import erasing

        with opened(settings, right_use) as core:
            account = erasing.account_of(core, who)
            if not yes:
                raise CourseError("shardwise.service-erase-sure", account=account)
            done = erasing.erase(core, None, account)
        counts = {name: getattr(done, name) for name in ("attempts", "answers", "submissions", "certificates")}
        if as_json:
            print_json({"account": account, **counts})
        else:
            print(context.obj.text("shardwise.service-erased-person", account=account, **counts))

    @service.command("health", help="cli-service-health")
    def health(context: Context, settings: File = None, _lang: Lang = None) -> None:
        with right_use():
            found = read(settings)
        url = f"http://{'127.0.0.1' if found.host in ('0.0.0.0', '::') else found.host}:{found.port}"
        reason = _asked(found, f"{url}{found.prefix}/readyz")
        if reason:
            raise CourseError("shardwise.service-not-well", url=url, reason=reason)
        print(context.obj.text("shardwise.service-well", url=url))


def _asked(settings: Settings, url: str) -> str:
    """Why the service is not ready; empty where it is. It is asked by the name that it answers to."""
    from urllib.parse import urlsplit

    import httpx

    try:
        host = urlsplit(settings.public_url).hostname or "localhost"
        found = httpx.get(url, headers={"host": host}, timeout=HEALTH_SECONDS)
        return "" if found.status_code == 200 else f"HTTP {found.status_code}"
    except httpx.HTTPError as error:
        return type(error).__name__
