"""`shardwise classroom export|import-quizzes|import-exams|report|similar|purge`: what becomes of the grades."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Context, Option

from shardwise.plan_options import Json, Lang, Printer

if TYPE_CHECKING:
    from shardwise.classroom.imports import Taken
    from translations import Language, Translator

Folder = Annotated[Path, Option("--course", metavar="FOLDER", help="cli-marks-course")]
Points = Annotated[float, Option("--points", min=0.01, help="cli-marks-points")]
Dry = Annotated[bool, Option("--dry-run", help="cli-marks-dry")]
Out = Annotated[Path | None, Option("--out", metavar="FILE", help="cli-marks-out")]
HERE = Path()


def add(classroom: typer.Typer, *, print_json: Printer, right_use: Callable[[], Any]) -> None:
    """The commands, in the group `classroom`."""

    def bring(
        context: Context, folder: Path, taken: Sequence[Taken], *, points: float, dry: bool, as_json: bool
    ) -> None:
        from shardwise import tables
        from shardwise.classroom import imports
        from shardwise.classroom.course import read

        text: Translator = context.obj.text
        course = read(folder)
        changes = imports.plan(folder, course, taken, points=points)
        told = [each for each in changes if not each.same]
        if as_json:
            fields = ("before", "points", "of")
            print_json(
                [
                    {"student": each.taken.student, "column": each.taken.column}
                    | {name: getattr(each, name) for name in fields}
                    for each in told
                ]
            )
        elif told:
            header = [text(f"shardwise.export-{name}") for name in ("student", "column", "before", "points")]
            rows = [[each.taken.student, each.taken.column, each.before, each.points] for each in told]
            tables.listed(rows, header=header, language=text.language)
        if not dry:
            imports.apply(folder, course, changes)
        if not as_json:
            said = "import-would" if dry else "import-done"
            print(text(f"shardwise.{said}", count=len(told), same=len(changes) - len(told)))

    @classroom.command("import-quizzes", help="cli-import-quizzes")
    def import_quizzes(
        context: Context,
        records: Annotated[Path, Argument(metavar="FOLDER", help="cli-import-records")],
        course: Folder = HERE,
        points: Points = 10.0,
        dry_run: Dry = False,
        as_json: Json = False,
        _lang: Lang = None,
    ) -> None:
        from shardwise.classroom import imports
        from shardwise.classroom.course import students

        text: Translator = context.obj.text
        with right_use():
            files = _records(records, [each.id for each in students(course)])
            taken, findings = imports.quizzes(files)
            for student, finding in findings:
                typer.echo(f"{student}: {finding.in_language(text)}", err=True)
            bring(context, course, taken, points=points, dry=dry_run, as_json=as_json)

    @classroom.command("import-exams", help="cli-import-exams")
    def import_exams(
        context: Context,
        results: Annotated[Path, Argument(metavar="FILE", help="cli-import-results")],
        exam: Annotated[str, Option("--exam", metavar="NAME", help="cli-import-exam")] = "course",
        course: Folder = HERE,
        points: Points = 100.0,
        dry_run: Dry = False,
        as_json: Json = False,
        _lang: Lang = None,
    ) -> None:
        from shardwise.classroom import imports
        from shardwise.classroom.course import students

        with right_use():
            taken = imports.exams(_text(results), exam=exam, students=students(course))
            bring(context, course, taken, points=points, dry=dry_run, as_json=as_json)

    @classroom.command("export", help="cli-export")
    def export(
        context: Context,
        format: Annotated[str, Option("--format", metavar="FORMAT", help="cli-export-format")] = "table",
        course: Folder = HERE,
        out: Out = None,
        _lang: Lang = None,
    ) -> None:
        from shardwise.classroom import exports
        from shardwise.classroom.gradebook import penalties
        from shardwise.classroom.sheet import sheet
        from translations import CourseError

        text: Translator = context.obj.text
        with right_use():
            if format not in exports.FORMATS:
                known = ", ".join(exports.FORMATS)
                raise CourseError("shardwise.export-unknown", format=format, known=known)
            marks = sheet(course)
            if penalties(course):  # a deadline has moved, or points were given by hand
                marks = sheet(course)
        _leave(exports.write(marks, format, text), out, text)
        if waiting := len(marks.waiting()):
            typer.echo(text("shardwise.export-waits", count=waiting), err=True)

    @classroom.command("report", help="cli-report")
    def report(
        context: Context,
        course: Folder = HERE,
        records: Annotated[Path | None, Option("--records", metavar="FOLDER", help="cli-import-records")] = None,
        out: Out = None,
        as_json: Json = False,
        _lang: Lang = None,
    ) -> None:
        from shardwise.classroom import batch, imports
        from shardwise.classroom import report as room
        from shardwise.classroom.sheet import sheet
        from shardwise.record import transfer

        text: Translator = context.obj.text
        language: Language = context.obj.language
        with right_use():
            marks = sheet(course)
            files = _records(records, [each.id for each in marks.students]) if records is not None else {}
            quizzes = {student: tuple(imports.attempts(transfer.read(path))) for student, path in files.items()}
        found = room.report(marks, batch.results(course), quizzes)
        if as_json:
            print_json(found.as_json())
        else:
            _leave(room.page(found, language), out or Path("report.html"), text)

    @classroom.command("similar", help="cli-similar")
    def similar(
        context: Context,
        assignment: Annotated[str, Argument(metavar="ASSIGNMENT", help="cli-similar-assignment")],
        course: Folder = HERE,
        alike: Annotated[float, Option("--alike", min=0.0, max=1.0, help="cli-similar-alike")] = 0.9,
        as_json: Json = False,
        _lang: Lang = None,
    ) -> None:
        from dataclasses import asdict

        from labs.exercises import exercise
        from shardwise import tables
        from shardwise.classroom import batch
        from shardwise.classroom import similar as room
        from shardwise.classroom.grading import form
        from shardwise.classroom.submission import read
        from translations import formats

        text: Translator = context.obj.text
        with right_use():
            handed = [each for each in batch.jobs(course, assignment=assignment) if each.path.exists()]
        asked = form(course, _assignment(course, assignment))
        answers = {each.student: read(each.path, asked).answers.get("code", "") for each in handed}
        own = exercise(asked.exercise)
        template, solution = ((own.folder / f"{name}.py").read_text(encoding="utf-8") for name in ("stub", "solution"))
        found = room.likeness(answers, template=template, solution=solution, alike=alike)
        if as_json:
            print_json(asdict(found))
            return
        if found.pairs:
            header = [
                text("shardwise.similar-first"),
                text("shardwise.similar-second"),
                text("shardwise.similar-share"),
            ]
            rows = [
                [each.first, each.second, formats.percent(each.share, text.language, digits=2)] for each in found.pairs
            ]
            tables.listed(rows, header=header, language=text.language)
        middle = "–" if found.middle is None else formats.percent(found.middle, text.language, digits=2)
        print(text("shardwise.similar-said", pairs=len(found.pairs), middle=middle, short=len(found.short)))
        equal = sorted(student for student, share in found.solution.items() if share == 1)
        if equal:
            print(text("shardwise.similar-published", count=len(equal), students=", ".join(equal)))

    @classroom.command("purge", help="cli-purge")
    def purge(
        context: Context,
        student: Annotated[list[str] | None, Option("--student", metavar="STUDENT", help="cli-purge-student")] = None,
        older_than: Annotated[int | None, Option("--older-than", metavar="DAYS", min=0, help="cli-purge-older")] = None,
        course: Folder = HERE,
        dry_run: Dry = False,
        yes: Annotated[bool, Option("--yes", help="cli-purge-yes")] = False,
        _lang: Lang = None,
    ) -> None:
        from shardwise.classroom import retention
        from translations import CourseError

        text: Translator = context.obj.text
        with right_use():
            if (older_than is None) == (not student):
                raise CourseError("shardwise.purge-whom")
            known = retention.everyone(course)
            if unknown := [each for each in student or () if each not in known]:
                raise CourseError("shardwise.grade-no-student", student=", ".join(unknown))
            chosen = tuple(student or ()) if older_than is None else retention.older(course, older_than)
        for each in chosen:
            found = retention.find(course, each)
            print(text("shardwise.purge-found", student=each, paths=len(found.paths), rows=found.submissions))
        if dry_run or not chosen:
            print(text("shardwise.purge-would", count=len(chosen)))
            return
        if not yes and not typer.confirm(text("shardwise.purge-sure", count=len(chosen))):
            raise typer.Exit(1)
        retention.purge(course, chosen)
        print(text("shardwise.purge-done", count=len(chosen)))


def _assignment(folder: Path, id: str) -> Any:
    from shardwise.classroom.course import read

    return read(folder).assignment(id)


def _records(folder: Path, students: Sequence[str]) -> dict[str, Path]:
    """Each student's record in a folder, as <id>.json. Raises CourseError where there is none at all."""
    from shardwise.classroom.imports import records
    from translations import CourseError

    found = records(folder, students=students)
    if not found:
        raise CourseError("shardwise.import-no-records", folder=str(folder))
    return found


def _text(path: Path) -> str:
    from translations import CourseError

    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise CourseError("shardwise.class-unreadable", path=str(path), reason=str(error)) from None


def _leave(content: str, out: Path | None, text: Translator) -> None:
    """Into the file, or onto the terminal."""
    from translations import CourseError

    if out is None:
        print(content, end="")
        return
    try:
        with out.open("w", encoding="utf-8", newline="") as file:
            file.write(content)
    except OSError as error:
        raise CourseError("shardwise.class-unwritable", path=str(out), reason=error.strerror or str(error)) from None
    print(text("shardwise.export-left", path=str(out)))
