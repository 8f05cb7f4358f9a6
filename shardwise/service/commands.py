"""`shardwise serve`, `shardwise service ...` and `shardwise certificate request`: what an organisation does from a
terminal, and what a learner asks it from the course.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Context, Option

from shardwise.plan_options import Json, Lang, Printer
from shardwise.service import operating_commands
from translations import CourseError

if TYPE_CHECKING:
    from shardwise.service.core import Core
    from shardwise.service.settings import Settings
    from translations import Translator

File = Annotated[Path | None, Option("--settings", metavar="FILE", help="cli-serve-settings")]
NEEDED = ("fastapi", "uvicorn", "jinja2", "authlib", "httpx", "python_multipart")


def add(app: typer.Typer, certificate: typer.Typer, *, print_json: Printer, right_use: Callable[[], Any]) -> None:
    """The commands, in the course's command line."""

    @app.command("serve", help="cli-serve")
    def serve(
        context: Context,
        settings: File = None,
        host: Annotated[str | None, Option("--host", help="cli-serve-host")] = None,
        port: Annotated[int | None, Option("--port", min=1, max=65535, help="cli-serve-port")] = None,
        _lang: Lang = None,
    ) -> None:
        text: Translator = context.obj.text
        with right_use():
            found = read(settings, host=host, port=port)
            found.check()
        from shardwise.service import serving

        serving.serve(found, text)

    service = typer.Typer(name="service", help="cli-service", no_args_is_help=True)
    app.add_typer(service)

    @service.callback()
    def everywhere(_lang: Lang = None) -> None:
        """Only declares the option."""

    operating_commands.add(service, read=read, opened=opened, print_json=print_json, right_use=right_use)

    @service.command("migrate", help="cli-service-migrate")
    def migrate(context: Context, settings: File = None, _lang: Lang = None) -> None:
        from shardwise.service.store import Store
        from shardwise.service.tables import REVISIONS

        with right_use():
            found = read(settings)
        Store.open(found.database, migrate=True).close()
        print(context.obj.text("shardwise.service-migrated", known=REVISIONS[-1]))

    @service.command("cohort", help="cli-service-cohort")
    def cohort(
        context: Context,
        name: Annotated[str, Argument(metavar="NAME", help="cli-service-cohort-name")],
        file: Annotated[Path, Argument(metavar="FILE", help="cli-service-cohort-file")],
        dry_run: Annotated[bool, Option("--dry-run", help="cli-service-dry")] = False,
        settings: File = None,
        as_json: Json = False,
        _lang: Lang = None,
    ) -> None:
        from shardwise.service import cohorts

        text: Translator = context.obj.text
        with right_use():
            content = _content(file)
        with opened(settings, right_use) as core:
            found = cohorts.apply(core, None, name, content, dry_run=dry_run)
        counts = {each: getattr(found, each) for each in ("new", "joined", "changed", "same")}
        if as_json:
            problems = [{"line": each.line, "message": each.error.in_language(text)} for each in found.problems]
            print_json({"cohort": found.cohort, **counts, "dry_run": found.dry_run, "problems": problems})
        else:
            for each in found.problems:
                said = text("shardwise.service-cohort-problem", line=each.line, problem=each.error.in_language(text))
                print(said, file=sys.stderr)
            id = "dry" if found.dry_run else "applied"
            print(text(f"shardwise.service-cohort-{id}", **counts, **({} if found.dry_run else {"name": name})))
        raise typer.Exit(1 if found.problems else 0)

    @service.command("role", help="cli-service-role")
    def role(
        context: Context,
        email: Annotated[str, Argument(metavar="EMAIL", help="cli-service-email")],
        role: Annotated[str, Argument(metavar="ROLE", help="cli-service-which-role")],
        settings: File = None,
        _lang: Lang = None,
    ) -> None:
        from shardwise.service import accounts

        with opened(settings, right_use) as core:
            accounts.appoint(core, email, role)
        print(context.obj.text("shardwise.service-role-given", email=email, role=role))

    @service.command("exams", help="cli-service-exams")
    def exams(context: Context, settings: File = None, as_json: Json = False, _lang: Lang = None) -> None:
        with right_use():
            found = read(settings)
        from shardwise.service.exams import Exams

        held, rows = Exams(found.exams), []
        for id in held.ids():
            exam = held.exam(id)
            exam.check()
            public = "yes" if exam.policy.public_bank else "no"
            rows.append({"exam": id, "items": exam.blueprint.items, "held": len(exam.banks.held), "public": public})
        if as_json:
            print_json(rows)
        else:
            for row in rows:
                print(context.obj.text("shardwise.service-exam-fits", **row))

    @service.command("sitting", help="cli-service-sitting")
    def sitting(
        context: Context,
        exam: Annotated[str, Argument(metavar="EXAM", help="cli-service-exam")],
        opens: Annotated[str, Option("--opens", metavar="MOMENT", help="cli-service-opens")],
        closes: Annotated[str, Option("--closes", metavar="MOMENT", help="cli-service-closes")],
        cohort: Annotated[str | None, Option("--cohort", metavar="NAME", help="cli-service-for")] = None,
        title: Annotated[str, Option("--title", help="cli-service-title")] = "",
        code: Annotated[str, Option("--code", help="cli-service-code")] = "",
        supervised: Annotated[bool, Option("--supervised", help="cli-service-supervised")] = False,
        attempts: Annotated[int | None, Option("--attempts", help="cli-service-attempts")] = None,
        settings: File = None,
        as_json: Json = False,
        _lang: Lang = None,
    ) -> None:
        from shardwise.service import cohorts

        with right_use():
            window = {"opens": _moment(opens), "closes": _moment(closes)}
        with opened(settings, right_use) as core:
            id = cohorts.open_sitting(
                core,
                None,
                exam=exam,
                cohort=None if cohort is None else cohorts.named(core, cohort),
                title=title,
                code=code,
                supervised=supervised,
                attempts=attempts,
                **window,
            )
        if as_json:
            print_json({"sitting": id})
        else:
            print(context.obj.text("shardwise.service-sitting-made", id=id, opens=opens, closes=closes))

    @service.command("results", help="cli-service-results")
    def results(
        sitting: Annotated[str, Argument(metavar="ID", help="cli-service-sitting-id")],
        settings: File = None,
        _lang: Lang = None,
    ) -> None:
        from shardwise.service import cohorts

        with opened(settings, right_use) as core:
            print(cohorts.results_csv(core, sitting), end="")

    @service.command("training", help="cli-service-training")
    def training(
        cohort: Annotated[str, Argument(metavar="NAME", help="cli-service-cohort-name")],
        settings: File = None,
        _lang: Lang = None,
    ) -> None:
        from shardwise.service import cohorts

        with opened(settings, right_use) as core:
            print(cohorts.training_csv(core, cohorts.named(core, cohort)), end="")

    @certificate.command("request", help="cli-certificate-request")
    def request(
        context: Context,
        issuer: Annotated[str, Option("--issuer", metavar="URL", help="cli-certificate-issuer")],
        exam: Annotated[str | None, Option("--exam", metavar="EXAM", help="cli-certificate-exam")] = None,
        email: Annotated[str | None, Option("--email", help="cli-certificate-my-email")] = None,
        as_json: Json = False,
        _lang: Lang = None,
    ) -> None:
        from shardwise.service import asking

        text: Translator = context.obj.text
        with right_use():
            url = asking.checked(issuer)
        found = asking.who(url, text.language.code)
        if exam is not None and email is not None and "email" in found["sign_in"]:
            asking.ask(url, exam=exam, email=email, language=text.language.code)
            found["asked"] = exam
        if as_json:
            print_json(found)
        else:
            for line in asking.lines(found, text, email=email, url=url):
                print(line)


def read(file: Path | None, **given: Any) -> Settings:
    """The settings. Raises CourseError where a package is missing or a setting is wrong."""
    from importlib.util import find_spec

    for package in NEEDED:
        if find_spec(package) is None:
            raise CourseError("shardwise.service-needs-packages", package=package)
    from shardwise.service import settings

    return settings.load(file, **given)


@contextmanager
def opened(file: Path | None, right_use: Callable[[], Any]) -> Iterator[Core]:
    """The service's core for as long as a command lasts; it listens to nobody, so that what is unsafe to serve is no
    matter.
    """
    with right_use():
        found = read(file)
    from shardwise.service.core import Core
    from shardwise.service.exams import Exams
    from shardwise.service.mail import Mail
    from shardwise.service.store import Store

    store = Store.open(found.database)
    with closing(Core(settings=found, store=store, mail=Mail(found), exams=Exams(found.exams))) as core:
        yield core


def _content(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8-sig")
    except FileNotFoundError as error:
        raise CourseError("shardwise.no-file", path=str(file)) from error
    except (OSError, UnicodeDecodeError) as error:
        raise CourseError("shardwise.file-unreadable", path=str(file)) from error


def _moment(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise CourseError("shardwise.service-window") from error
    if found.tzinfo is None:
        raise CourseError("shardwise.service-window")
    return found
