"""The command line: `shardwise learn|lab|check|quiz|certificate|record|doctor`.

Exit 0 says yes, 1 no, 2 that the command was used wrongly, 130 that it was interrupted. Nothing heavy is imported
before a command needs it. Help texts here are ids of messages; `main` puts the learner's language in their place.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from typer import Argument, Context, Option

from labs.options import OPTIONS
from shardwise import (
    case_command,
    hardware_command,
    issuer_commands,
    lab_commands,
    names_command,
    plan_commands,
    quiz_commands,
)
from shardwise.classroom import commands as classroom
from shardwise.service import commands as service
from translations import CourseError, Language, Translator, in_preparation, preferred, released, translator

if TYPE_CHECKING:
    from shardwise.doctor import Examination
    from shardwise.record import Record

YES, NO, WRONG_USE, INTERRUPTED = 0, 1, 2, 130


@dataclass(frozen=True)
class Desk:
    """What every command is given: the learner's language and its words."""

    language: Language

    @property
    def text(self) -> Translator:
        return translator(self.language)


class WrongUse(Exception):
    """The command was used wrongly; `error` says how."""

    def __init__(self, error: CourseError) -> None:
        super().__init__(str(error))
        self.error = error


Lang = Annotated[str | None, Option("--lang", metavar="LANG", help="cli-lang")]
Json = Annotated[bool, Option("--json", help="cli-json")]

app = typer.Typer(name="shardwise", help="cli", no_args_is_help=True, add_completion=False)
lab = typer.Typer(name="lab", help="cli-lab", no_args_is_help=True)
certificate = typer.Typer(name="certificate", help="cli-certificate", no_args_is_help=True)
record = typer.Typer(name="record", help="cli-record", no_args_is_help=True)
for group in (lab, certificate, record):
    app.add_typer(group)
lab_run = typer.Typer(name="run", help="cli-lab-run", no_args_is_help=True)
lab.add_typer(lab_run)


@record.callback()
@certificate.callback()
@lab_run.callback()
@lab.callback()
@app.callback()
def everywhere(_lang: Lang = None) -> None:
    """Only declares the option; `main` has read it already."""


# --- learn, doctor


@app.command(help="cli-learn")
def learn(
    context: Context,
    _lang: Lang = None,
    browser: Annotated[bool, Option("--browser/--no-browser", help="cli-learn-browser")] = True,
    port: Annotated[int | None, Option(help="cli-learn-port", min=1, max=65535)] = None,
) -> None:
    from shardwise import learn as room

    room.learn(_desk(context).language, port=port, browser=browser)


@app.command(help="cli-doctor")
def doctor(
    context: Context,
    classroom: Annotated[bool, Option("--classroom", help="cli-doctor-classroom")] = False,
    course: Annotated[Path | None, Option("--course", metavar="FOLDER", help="cli-doctor-course")] = None,
    as_json: Json = False,
    _lang: Lang = None,
) -> None:
    from shardwise import doctor as room

    desk = _desk(context)
    found = _classroom(course) if classroom or course is not None else room.examine()
    if as_json:
        _print_json(found.as_json(desk.text))
    else:
        for line in found.lines(desk.text):
            print(line)
    raise typer.Exit(YES if found.ready else NO)


def _classroom(folder: Path | None) -> Examination:
    """What a class needs; of the course folder that was named, or of this one where it is one."""
    from shardwise.classroom import course as classes
    from shardwise.classroom import examination

    if folder is None and not Path(classes.NAME).is_file():
        return examination.examine()
    folder = folder or Path()
    with _right_use():
        found = classes.read(folder)
    return examination.examine(found, folder)


# --- lab


@lab.command("list", help="cli-lab-list")
def lab_list(context: Context, as_json: Json = False, _lang: Lang = None) -> None:
    from labs import catalogue

    desk = _desk(context)
    titles = {name: desk.text(f"shardwise.lab-{name}") for name in catalogue.LABS}
    if as_json:
        _print_json([{"lab": name, "unit": catalogue.LABS[name].unit, "title": titles[name]} for name in titles])
        return
    from shardwise import terminal

    terminal.names(titles)


def _lab_run(context: Context, name: str, *, as_json: bool, ranks: int | None, options: dict[str, Any]) -> None:
    from labs import catalogue
    from shardwise import lab_terminal

    desk = _desk(context)
    with _right_use():
        number = catalogue.ranks_of(name, options, ranks)
        catalogue.checked(name, options, ranks=number)
    with lab_terminal.watching(ranks=number, view=catalogue.lab(name).view, text=desk.text) as watch:
        run = catalogue.run_lab(name, ranks=number, on_row=watch.take, on_output=watch.output, **options)
    if as_json:
        _print_json(run.data)
    else:
        lab_terminal.report(run.data, desk.text, measured=watch.bubble)


for _name in OPTIONS:
    lab_commands.add(lab_run, _name, _lab_run)


# --- check


@app.command(help="cli-check")
def check(
    context: Context,
    exercise: Annotated[str | None, Argument(metavar="EXERCISE", help="cli-check-exercise")] = None,
    file: Annotated[Path | None, Argument(metavar="FILE", help="cli-check-file")] = None,
    listed: Annotated[bool, Option("--list", help="cli-check-list")] = False,
    as_json: Json = False,
    _lang: Lang = None,
) -> None:
    desk = _desk(context)
    if listed:
        _exercises(desk, as_json=as_json)
        return
    if exercise is None or file is None:
        raise WrongUse(CourseError("shardwise.check-needs-both"))
    from labs.exercises import exercise as find
    from quiz.rendering import plain
    from shardwise import practice

    with _right_use():
        find(exercise)
        source = _read(file)
    verdict = practice.check(_record(desk), id=exercise, source=source, language=desk.language)
    if as_json:
        _print_json(verdict.as_dict())
    else:
        print(plain(verdict.message, desk.language))
        if verdict.printed:
            print(f"\n{desk.text('shardwise.check-printed')}\n{verdict.printed}")
    raise typer.Exit(YES if verdict.passed else NO)


def _exercises(desk: Desk, *, as_json: bool) -> None:
    from labs.exercises import exercises

    found = exercises(desk.language)
    if as_json:
        _print_json([{"exercise": each.id, "unit": each.unit, "title": each.title} for each in found])
        return
    from shardwise import terminal

    terminal.names({each.id: each.title for each in found})


# --- certificate


@certificate.command("issue", help="cli-certificate-issue")
def certificate_issue(
    context: Context,
    unit: Annotated[str, Argument(metavar="UNIT", help="cli-unit")],
    name: Annotated[str, Option(help="cli-certificate-name")],
    to: Annotated[Path | None, Option(metavar="FOLDER", help="cli-certificate-to")] = None,
    as_json: Json = False,
    _lang: Lang = None,
) -> None:
    from shardwise import practice, workspace
    from shardwise.units import unit as find

    desk = _desk(context)
    with _right_use():
        chosen = find(unit).id
    folder = to if to is not None else workspace.folder() / "certificates"
    files = practice.certificate(_record(desk), unit=chosen, holder=name, language=desk.language, folder=folder)
    if as_json:
        _print_json({"id": files.id, "files": [str(path) for path in files.paths]})
    else:
        print(desk.text("shardwise.certificate-issued", id=files.id))
        for path in files.paths:
            print(f"  {path}")


@certificate.command("verify", help="cli-certificate-verify")
def certificate_verify(
    context: Context,
    file: Annotated[Path, Argument(metavar="FILE", help="cli-certificate-file")],
    accept: Annotated[list[str] | None, Option(metavar="practice", help="cli-certificate-accept")] = None,
    email: Annotated[str | None, Option(help="cli-certificate-email")] = None,
    trust: Annotated[Path | None, Option("--trust", metavar="FILE", help="cli-certificate-trust-file")] = None,
    offline: Annotated[bool, Option("--offline", help="cli-certificate-offline")] = False,
    as_json: Json = False,
    _lang: Lang = None,
) -> None:
    import certificates
    from certificates.network import Fetcher

    desk = _desk(context)
    may = ("practice", "status-not-checked")
    accepted = {"issuer", "endorsed", *(accept or ())}
    if not accepted <= {"issuer", "endorsed", *may}:
        raise WrongUse(CourseError("shardwise.certificate-accept-unknown", known=", ".join(may)))
    with _right_use():
        known = issuer_commands.read_list(trust)
        data = certificates.read(file)
    found = certificates.verify(
        data, language=desk.language, email=email, trust=known, fetch=None if offline else Fetcher()
    )
    if as_json:
        _print_json(found.as_json())
    else:
        from shardwise import terminal

        terminal.verification(found, desk.text)
    raise typer.Exit(YES if found.verdict in accepted else NO)


# --- record


@record.command("show", help="cli-record-show")
def record_show(context: Context, as_json: Json = False, _lang: Lang = None) -> None:
    from shardwise import progress

    desk = _desk(context)
    shown = progress.overview(_record(desk), desk.language)
    if as_json:
        _print_json(shown.as_json())
    else:
        from shardwise import terminal

        terminal.overview(shown, desk.text)


@record.command("export", help="cli-record-export")
def record_export(
    context: Context,
    file: Annotated[Path, Argument(metavar="FILE", help="cli-record-out")],
    without_key: Annotated[bool, Option("--without-key", help="cli-record-without-key")] = False,
    _lang: Lang = None,
) -> None:
    desk = _desk(context)
    if not file.absolute().parent.is_dir():
        raise WrongUse(CourseError("shardwise.no-folder", path=str(file.parent)))
    _record(desk).export(file, key=not without_key)
    said = "record-exported-without-key" if without_key else "record-exported"
    print(desk.text(f"shardwise.{said}", path=str(file)))


@record.command("import", help="cli-record-import")
def record_import(
    context: Context, file: Annotated[Path, Argument(metavar="FILE", help="cli-record-in")], _lang: Lang = None
) -> None:
    desk = _desk(context)
    if not file.is_file():
        raise WrongUse(CourseError("shardwise.no-file", path=str(file)))
    merged = _record(desk).merge(file)
    print(desk.text("shardwise.record-imported", added=merged.added, known=merged.known))


# --- what the commands share


def _desk(context: Context) -> Desk:
    desk: Desk = context.obj
    return desk


def _record(desk: Desk) -> Record:
    """The learner's record; what was put right while opening it is told."""
    from shardwise.record import Record

    opened = Record.open()
    if opened.notice is not None:
        _complain(desk.text, opened.notice)
    return opened


class _right_use:
    """What goes wrong inside was asked for wrongly."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, CourseError):
            raise WrongUse(error) from error


def _read(file: Path) -> str:
    from labs.exercises.reading import LIMIT

    try:
        # Never more than a check looks at, nor waiting for a pipe: a device has no end.
        if file.exists() and not file.is_file() and not file.samefile(os.devnull):
            raise CourseError("shardwise.file-unreadable", path=str(file))
        with file.open("rb") as opened:
            data = opened.read(LIMIT + 1)
        return data.decode("utf-8-sig", "replace" if len(data) > LIMIT else "strict")
    except FileNotFoundError as error:
        raise CourseError("shardwise.no-file", path=str(file)) from error
    except (OSError, UnicodeDecodeError) as error:
        raise CourseError("shardwise.file-unreadable", path=str(file)) from error


def _print_json(value: Any) -> None:
    print(json.dumps(value, ensure_ascii=False, allow_nan=False))


def _complain(text: Translator, error: CourseError) -> None:
    print(error.in_language(text), file=sys.stderr)


# --- the planner

plan_commands.add(app, print_json=_print_json, right_use=_right_use)
hardware_command.add(app, print_json=_print_json, right_use=_right_use)
case_command.add(app, print_json=_print_json)
names_command.add(app, print_json=_print_json)


# --- questions

quiz_commands.add(app, print_json=_print_json, right_use=_right_use, record=lambda context: _record(_desk(context)))


# --- the classroom

classroom.add(app, print_json=_print_json, right_use=_right_use)


# --- issuers

issuer_commands.add(app, certificate, print_json=_print_json, right_use=_right_use)


# --- the service

service.add(app, certificate, print_json=_print_json, right_use=_right_use)


# --- starting


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs the command and leaves with its exit code; a learner never sees a traceback for what the course foresees."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by whoever started this
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115, PTH123
        getattr(sys, name).reconfigure(encoding="utf-8", errors="replace")
    code = run(words)
    try:
        sys.stdout.flush()
    except OSError as error:
        # What is left in the buffer would be tried again, and told again, as Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            _complain(translator("en"), CourseError("shardwise.system-refused", reason=error.strerror or error))
        code = NO
    sys.exit(code)


def run(words: Sequence[str]) -> int:
    """The exit code of a command; it prints and returns, and never raises."""
    try:
        desk = Desk(preferred(_asked_language(words)))
    except CourseError as error:
        _complain(translator("en"), error)
        return WRONG_USE
    command = typer.main.get_command(app)
    _in_words(command, desk.text)
    try:
        code = command.main(list(words), prog_name="shardwise", standalone_mode=False, obj=desk)
        return code if isinstance(code, int) else YES
    except WrongUse as wrong:
        _complain(desk.text, wrong.error)
        return WRONG_USE
    except CourseError as error:
        _complain(desk.text, error)
        return NO
    except OSError as error:
        _complain(desk.text, CourseError("shardwise.system-refused", reason=error.strerror or error))
        return NO
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except typer.TyperException as error:
        return _usage(error, desk.text)


def _asked_language(words: Sequence[str]) -> str | None:
    """What `--lang` says, wherever it stands before a `--`."""
    found = None
    for number, word in enumerate(words):
        if word == "--":
            break
        if word == "--lang":
            found = next(iter(words[number + 1 :]), None)
        elif word.startswith("--lang="):
            found = word.partition("=")[2]
    return found


def _in_words(command: Any, text: Translator) -> None:
    """Puts messages in the place of their ids, in a command and those below it."""
    from typer import rich_utils

    rich_utils.ARGUMENTS_PANEL_TITLE = text("shardwise.cli-arguments")
    rich_utils.OPTIONS_PANEL_TITLE = text("shardwise.cli-options")
    rich_utils.COMMANDS_PANEL_TITLE = text("shardwise.cli-commands")
    rich_utils.DEFAULT_STRING = text("shardwise.cli-default")
    rich_utils.REQUIRED_LONG_STRING = text("shardwise.cli-required")
    waiting_for = (text("shardwise.language-in-preparation", language=each.code) for each in in_preparation())
    named = {"languages": ", ".join((*(each.code for each in released()), *waiting_for))}
    waiting = [command]
    while waiting:
        each = waiting.pop()
        each.help = text(f"shardwise.{each.help}", **named)
        each.get_help_option(Context(each)).help = text("shardwise.cli-help")
        for parameter in each.params:
            parameter.help = text(f"shardwise.{parameter.help}", **named)
        waiting += getattr(each, "commands", {}).values()


def _usage(error: typer.TyperException, text: Translator) -> int:
    """Tells wrong use in the learner's words, as far as Typer says what was wrong."""
    context, parameter = getattr(error, "ctx", None), getattr(error, "param", None)
    kind = type(error).__name__
    if kind == "NoArgsIsHelpError":  # it has shown the help itself
        return WRONG_USE
    if kind == "NoSuchOption":
        said = text("shardwise.cli-no-option", option=error.option_name)  # type: ignore[attr-defined]
    elif parameter is not None and kind == "MissingParameter":
        said = text("shardwise.cli-missing", name=_called(parameter))
    elif parameter is not None:
        kind = {int: "whole", float: "number"}.get(parameter.type_descriptor.annotation, "other")
        said = text(f"shardwise.cli-bad-{kind}", name=_called(parameter))
    elif kind == "BadOptionUsage":
        said = text("shardwise.cli-bad-other", name=error.option_name)  # type: ignore[attr-defined]
    elif kind == "UsageError" and context is not None:  # a group fails so for a name, a command for what is left over
        if known := getattr(context.command, "commands", None):
            said = text("shardwise.cli-no-command", known=", ".join(known))
        else:
            said = text("shardwise.cli-too-many", command=context.command_path)
    else:
        said = error.format_message()
    print(said, file=sys.stderr)
    if context is not None:
        print(text("shardwise.cli-see-help", command=f"{context.command_path} --help"), file=sys.stderr)
    return WRONG_USE


def _called(parameter: Any) -> str:
    """An option by its flag, an argument by its name in the usage line."""
    flags = [each for each in parameter.opts if each.startswith("--")]
    return flags[0] if flags else str(parameter.metavar or parameter.name)


if __name__ == "__main__":
    main()
