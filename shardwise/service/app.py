"""The application: routes over the core, the pages and the wall around them, and what runs beside.

uvicorn serves create_app(load()) ; tests call create_app(settings, clock=...) and use it over HTTP.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

from fastapi import FastAPI

from shardwise.record.tables import now
from shardwise.service import api, graders, issuing, sign_in
from shardwise.service.core import Core
from shardwise.service.exams import Exams
from shardwise.service.mail import Mail
from shardwise.service.settings import Settings
from shardwise.service.signing import Issuing
from shardwise.service.store import Store
from translations import CourseError


def make_core(
    settings: Settings,
    *,
    clock: Callable[[], datetime] = now,
    issuing: Issuing | None = None,
    migrate: bool = False,
) -> Core:
    """What the service works with. Raises CourseError for unsafe settings, a database of another schema, a broken
    issuer.
    """
    settings.check()
    settings.data.mkdir(parents=True, exist_ok=True, mode=0o700)
    store = Store.open(settings.database, migrate=migrate)
    return Core(
        settings=settings,
        store=store,
        mail=Mail(settings),
        exams=Exams(settings.exams),
        issuing=issuing if issuing is not None else issuer_of(settings.issuer, signer=settings.signer),
        clock=clock,
    )


def issuer_of(folder: Path | None, *, signer: str | None = None) -> Issuing | None:
    """The issuer in a folder, with the signer that the settings name (`module:function`, called with the issuer), or
    that of its key file. Raises CourseError where that gives no signer of the key that the issuer publishes.
    """
    if folder is None:
        return None
    from certificates import office

    issuer = office.read(folder)
    if signer is None:
        return Issuing(issuer=issuer, signer=office.signer(folder, issuer), folder=folder)
    try:
        module, _, function = signer.partition(":")
        found = getattr(import_module(module), function)(issuer)
        if (found.did, found.key_id, found.public_key) != (issuer.did, issuer.key.id, issuer.key.public):
            raise ValueError(f"{found.key_id} is not {issuer.key.id}")
    except CourseError:
        raise
    except Exception as error:  # whatever an operator's own module does wrong is told before anything listens
        raise CourseError("shardwise.service-no-signer", name=signer, reason=error) from error
    return Issuing(issuer=issuer, signer=found, folder=folder)


def create_app(
    settings: Settings | None = None, *, core: Core | None = None, work: bool = True, bare: bool = False
) -> FastAPI:
    """The service over its settings, or over a core made before.

    `work` False: nothing is graded and nothing swept. `bare`: the API alone, without pages and the wall around them.
    """
    if core is None:
        assert settings is not None
        core = make_core(settings)
    made = core

    @asynccontextmanager
    async def running(_app: FastAPI) -> AsyncIterator[None]:
        workers = graders.Graders(made) if work else None
        if made.store.engine.dialect.name == "sqlite":
            graders.reclaim(made)
        issuing.recover(made)
        if workers is not None:
            workers.start()
        yield
        if workers is not None:
            workers.stop()
        if (limits := getattr(app.state, "limits", None)) is not None:
            limits.close()
        made.close()

    prefix = made.settings.prefix
    app = FastAPI(
        title="Shardwise",
        version=version("shardwise"),
        description="Exams, graded on the server, and certificates that anyone can verify.",
        lifespan=running,
        docs_url=None,
        redoc_url=None,
        openapi_url=f"{prefix}/api/openapi.json",
    )
    app.state.core = made
    api.install(app, prefix=prefix)
    app.include_router(sign_in.router, prefix=prefix)
    if not bare:
        from shardwise.service import pages

        pages.install(app, made, prefix=prefix)
    return app
