"""The student's side of a class: what is due, fetching, handing in, feedback. nbgrader's exchange does all of it.

A class is there for whoever has nbgrader and an `nbgrader_config.py` that names an exchange; on a Hub that file lies
where the Hub's owner put it. Assignments are copied into `class/<course>/` of the workspace, at first opening, in every
language of the class; the student works in the notebook of their own. What is handed in is what nbgrader copied: the
receipt's hash is computed from that copy, and from what arrived.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import logging
import os
import re
import threading
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from shardwise import workspace
from shardwise.classroom import announcing
from shardwise.classroom.course import Course, Penalty, zone_of
from translations import SOURCE, CourseError, Language

CONFIG = "nbgrader_config.py"
CLASSES = "class"
"""The folder of the workspace that holds a folder for each class."""
RECEIPTS = "receipts"
SUPPORTED = "0.9"
_exchanging = threading.Lock()
"""nbgrader's exchange keeps its settings in classes; one transfer at a time."""


@dataclass(frozen=True, kw_only=True)
class HandedIn:
    """One hand-in as nbgrader has it: when, and where its feedback lies once it was fetched."""

    at: datetime
    feedback: Path | None = None
    feedback_waits: bool = False


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """An assignment as its student sees it. `state` is `released`, `fetched` or `handed-in`; `due` has a zone.

    `notebooks` are the student's copies by language.
    """

    id: str
    state: str
    due: datetime | None
    extended: bool
    notebooks: Mapping[str, Path]
    handed_in: tuple[HandedIn, ...]

    def notebook(self, language: Language) -> Path | None:
        """The copy to work in: the language's, else English, else whichever there is."""
        return (
            self.notebooks.get(language.code) or self.notebooks.get(SOURCE) or next(iter(self.notebooks.values()), None)
        )

    @property
    def feedback(self) -> Path | None:
        """The latest feedback that is here."""
        return next((each.feedback for each in reversed(self.handed_in) if each.feedback is not None), None)


@dataclass(frozen=True, kw_only=True)
class Look:
    """What would be handed in, before it is: `notebook` is the copy that was worked in, `others` are more that were.

    `penalty` is what the class's rules take if it is handed in at `at`; nothing where no due moment is known.
    """

    assignment: str
    notebook: Path
    language: str
    changed: bool
    others: tuple[Path, ...]
    saved: datetime
    sha256: str
    due: datetime | None
    penalty: Penalty | None
    at: datetime
    files: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Receipt:
    """What was handed in, and when. `digest` is of the whole folder, as grading computes it from what it received;
    `sha256` of the notebook. Times are ISO 8601 with a zone.
    """

    course: str
    assignment: str
    student: str
    at: str
    due: str | None
    late_seconds: float
    percent_lost: float
    notebook: str
    language: str
    sha256: str
    digest: str
    files: tuple[str, ...]
    kept: Path | None = None

    def as_json(self) -> dict[str, Any]:
        told = {name: value for name, value in asdict(self).items() if name != "kept"}
        return {"version": 1, **told}


@dataclass(frozen=True)
class Class:
    """A class that this student is in. Made by `classes`."""

    id: str
    student: str
    folder: Path
    exchange: Path | None
    _config: Any

    @cached_property
    def course(self) -> Course | None:
        """What the teacher announced; None where nothing was."""
        return announcing.read(self.exchange, self.id, self.student) if self.exchange is not None else None

    # --- looking

    def assignments(self) -> tuple[Assignment, ...]:
        """All that were released, by due moment, those without one last; then those that were handed in once."""
        released = {each["assignment_id"]: each for each in self._listed(cached=False)}
        handed_in = {each["assignment_id"]: each["submissions"] for each in self._listed(cached=True)}
        found = [self._assignment(id, handed_in.get(id, [])) for id in {**released, **handed_in}]
        known = [each.id for each in self.course.assignments] if self.course else []
        if self.course is not None:
            for_others = set(released) - set(known)
            found = [each for each in found if each.id not in for_others or each.state != "released"]
        last = datetime.max.replace(tzinfo=UTC)
        return tuple(sorted(found, key=lambda each: ((each.due or last).astimezone(UTC), each.id)))

    def assignment(self, id: str) -> Assignment:
        """One of them. Raises CourseError that names those there are."""
        found = {each.id: each for each in self.assignments()}
        if id not in found:
            raise CourseError("shardwise.hand-in-unknown", assignment=id, known=", ".join(found) or "–")
        return found[id]

    def look(self, id: str, *, now: datetime | None = None) -> Look:
        """What would be handed in. Raises CourseError where nothing was fetched."""
        own = self.assignment(id)
        if not own.notebooks:
            raise CourseError("shardwise.hand-in-not-fetched", assignment=id)
        given = self._given(id)
        changed = [
            (path.stat().st_mtime, code, path) for code, path in own.notebooks.items() if _work(path) != given.get(code)
        ]
        at = now or datetime.now(UTC)
        if changed:
            _, code, chosen = max(changed)
        else:
            code = next(
                each for each in (workspace.remembered() or "", SOURCE, *own.notebooks) if each in own.notebooks
            )
            chosen = own.notebooks[code]
        penalty = None
        if self.course is not None and own.due is not None:
            penalty = self.course.penalty(self.student, id, at)
        return Look(
            assignment=id,
            notebook=chosen,
            language=code,
            changed=bool(changed),
            others=tuple(sorted(path for _, _, path in changed if path != chosen)),
            saved=datetime.fromtimestamp(chosen.stat().st_mtime, UTC),
            sha256=hashlib.sha256(chosen.read_bytes()).hexdigest(),
            due=own.due,
            penalty=penalty,
            at=at,
            files=tuple(_files(self.folder / id)),
        )

    # --- doing

    def fetch(self, id: str) -> Assignment:
        """Copies an assignment into the workspace; what is there already stays as it is. Raises CourseError."""
        before = self.assignment(id)
        if before.state == "released" or not before.notebooks:
            self.folder.mkdir(parents=True, exist_ok=True)
            with _transfer(self._settings(id)) as (factory, parts, config):
                config.ExchangeFetchAssignment.replace_missing_files = True
                factory.FetchAssignment(**parts, config=config).start()
        return self.assignment(id)

    def refreshed(self) -> tuple[Assignment, ...]:
        """All assignments, after what was given out since and feedback that waits were copied into the workspace."""
        found = self.assignments()
        for each in found:
            if each.state == "released":
                self.fetch(each.id)
        if any(one.feedback_waits for each in found for one in each.handed_in):
            self.fetch_feedback()
        return self.assignments()

    def fetch_feedback(self) -> None:
        """Copies the feedback that waits. Feedback that can't be had now is not an error: it is asked for again."""
        waiting = {each.id for each in self.assignments() if any(one.feedback_waits for one in each.handed_in)}
        for id in sorted(waiting):
            with contextlib.suppress(CourseError), _transfer(self._settings(id)) as (factory, parts, config):
                factory.FetchFeedback(**parts, config=config).start()

    def submit(self, id: str) -> Receipt:
        """Hands an assignment in, as it lies in the workspace. Raises CourseError, and then nothing was handed in."""
        from shardwise.classroom import handed_in

        looked = self.look(id)
        with _transfer(self._settings(id)) as (factory, parts, config):
            # Feedback finds its way by the notebooks at the top: one that was deleted is put back, untouched.
            config.ExchangeFetchAssignment.replace_missing_files = True
            with contextlib.suppress(Exception):
                factory.FetchAssignment(**parts, config=config).start()
            handing = factory.Submit(**parts, config=config)
            handing.start()
            at = _moment(handing.timestamp)
            places = _copies(handing)
        digests = {handed_in.gather(each).digest for each in places or (self.folder / id,)}
        if len(digests) != 1:
            raise CourseError("shardwise.hand-in-not-there", assignment=id)
        penalty = self.course.penalty(self.student, id, at) if self.course is not None and looked.due else None
        receipt = Receipt(
            course=self.id,
            assignment=id,
            student=self.student,
            at=at.isoformat(timespec="seconds"),
            due=looked.due.isoformat() if looked.due is not None else None,
            late_seconds=penalty.late.total_seconds() if penalty is not None else 0.0,
            percent_lost=penalty.percent if penalty is not None else 0.0,
            notebook=looked.notebook.relative_to(self.folder / id).as_posix(),
            language=looked.language,
            sha256=looked.sha256,
            digest=digests.pop(),
            files=tuple(_files(places[0] if places else self.folder / id)),
        )
        return self._keep(receipt)

    # --- inside

    def _settings(self, id: str = "") -> Any:
        from traitlets.config import Config

        config = Config(self._config)
        config.CourseDirectory.course_id = self.id
        config.CourseDirectory.assignment_id = id
        config.Exchange.assignment_dir = str(self.folder)
        config.Exchange.path_includes_course = False
        config.Exchange.cache = str(_cache(config))
        return config

    def _listed(self, *, cached: bool) -> list[dict[str, Any]]:
        with _transfer(self._settings()) as (factory, parts, config):
            config.ExchangeList.cached = cached
            found: list[dict[str, Any]] = factory.List(**parts, config=config).start()
        return [each for each in found if each["course_id"] == self.id]

    def _assignment(self, id: str, submissions: list[dict[str, Any]]) -> Assignment:
        folder = self.folder / id
        notebooks = _notebooks(folder, id)
        handed_in = tuple(
            HandedIn(
                at=_moment(each["timestamp"]),
                feedback=_feedback(folder / "feedback" / each["timestamp"]),
                feedback_waits=bool(each["has_exchange_feedback"])
                and (not each["has_local_feedback"] or bool(each["feedback_updated"])),
            )
            for each in sorted(submissions, key=lambda each: _moment(each["timestamp"]))
        )
        course, due, extended = self.course, None, False
        if course is not None and any(each.id == id for each in course.assignments):
            due = course.due(self.student, id)
            extended = due != course.assignment(id).due
            due = due.astimezone(zone_of(course.zone)) if due is not None else None
        state = "handed-in" if handed_in else "fetched" if notebooks else "released"
        return Assignment(id=id, state=state, due=due, extended=extended, notebooks=notebooks, handed_in=handed_in)

    def _given(self, id: str) -> dict[str, str]:
        """Of each notebook as it was given out, what its cells say."""
        if self.exchange is None:
            return {}
        found = _notebooks(self.exchange / self.id / "outbound" / id, id)
        return {code: _work(path) for code, path in found.items()}

    def _keep(self, receipt: Receipt) -> Receipt:
        folder = self.folder / RECEIPTS
        folder.mkdir(parents=True, exist_ok=True)
        name = re.sub(r"[^0-9T]", "", receipt.at[:19])
        text = json.dumps(receipt.as_json(), ensure_ascii=False, indent=1) + "\n"
        path = folder / f"{receipt.assignment}-{name}.json"
        path.write_text(text, encoding="utf-8")
        return replace(receipt, kept=path)


def configured() -> Path | None:
    """The nbgrader settings of whoever runs this, if there are any; found without loading nbgrader."""
    if importlib.util.find_spec("nbgrader") is None:
        return None
    return next((path for folder in _folders() if (path := Path(folder) / CONFIG).is_file()), None)


def classes() -> tuple[Class, ...]:
    """The classes of whoever runs this; none where nbgrader is not set up. Takes seconds where it is."""
    if configured() is None:
        return ()
    from nbgrader.utils import get_username  # type: ignore[import-untyped]

    config = _configuration()
    student = str(get_username())
    with _transfer(config) as (factory, parts, settings):
        lister = factory.List(**parts, config=settings)
        root = Path(lister.root) if getattr(lister, "root", "") else None
        listed = lister.start()
    own = str(config.CourseDirectory.get("course_id", "")) if "CourseDirectory" in config else ""
    ids = [own] if own else sorted({each["course_id"] for each in listed})
    above = workspace.folder() / CLASSES
    return tuple(Class(id=id, student=student, folder=above / id, exchange=root, _config=config) for id in ids)


def announced(course: str, student: str) -> Course | None:
    """What the teacher announced of a class, read without loading nbgrader; None where settings name no exchange."""
    config = _configuration()
    root = str(config.Exchange.get("root", "")) if "Exchange" in config else ""
    return announcing.read(Path(root), course, student) if root else None


def the_class(id: str | None) -> Class:
    """The class of this id, or the only one. Raises CourseError that says what is missing."""
    if importlib.util.find_spec("nbgrader") is None:
        raise CourseError("shardwise.classroom-needs-nbgrader")
    found = {each.id: each for each in classes()}
    if not found:
        raise CourseError("shardwise.hand-in-no-class", places=", ".join(map(str, _folders())))
    if id is None and len(found) == 1:
        return next(iter(found.values()))
    if id not in found:
        raise CourseError("shardwise.hand-in-which-class", known=", ".join(found))
    return found[id]


def class_of(assignment: str) -> Class:
    """The class that gave out an assignment. Raises CourseError where none did."""
    found = classes()
    for each in found:
        if any(one.id == assignment for one in each.assignments()):
            return each
    if not found:
        return the_class(None)
    known = ", ".join(one.id for each in found for one in each.assignments())
    raise CourseError("shardwise.hand-in-unknown", assignment=assignment, known=known or "–")


def _folders() -> list[str]:
    """Where settings are looked for. `shardwise learn` has folders of Jupyter's of its own; the user's count, too."""
    from jupyter_core.paths import jupyter_config_path

    found = jupyter_config_path()
    users = str(Path.home() / ".jupyter")
    return found if users in found else [*found, users]


def _configuration() -> Any:
    """nbgrader's settings, the nearest of them last, as its own applications read them."""
    from traitlets.config import Config
    from traitlets.config.loader import PyFileConfigLoader

    config = Config()
    for folder in reversed(_folders()):
        if (Path(folder) / CONFIG).is_file():
            try:
                config.merge(PyFileConfigLoader(CONFIG, path=folder).load_config())
            except Exception as error:
                raise CourseError(
                    "shardwise.hand-in-bad-settings", path=str(Path(folder) / CONFIG), reason=error
                ) from error
    return config


def _cache(config: Any) -> Path:
    """Where nbgrader remembers what was handed in: the same place in JupyterLab, on a Hub and in a terminal."""
    from jupyter_core.paths import jupyter_data_dir

    if named := config.Exchange.get("cache", "") if "Exchange" in config else "":
        return Path(str(named))
    kept = os.environ.pop("JUPYTER_DATA_DIR", None)
    try:
        return Path(jupyter_data_dir()) / "nbgrader_cache"
    finally:
        if kept is not None:
            os.environ["JUPYTER_DATA_DIR"] = kept


@contextlib.contextmanager
def _transfer(config: Any) -> Iterator[tuple[Any, dict[str, Any], Any]]:
    """nbgrader's exchange, ready for one transfer: its factory, what its parts take, its settings. What it refuses is
    a CourseError with its own words.
    """
    from nbgrader.auth import Authenticator  # type: ignore[import-untyped]
    from nbgrader.coursedir import CourseDirectory  # type: ignore[import-untyped]
    from nbgrader.exchange import ExchangeError, ExchangeFactory  # type: ignore[import-untyped]
    from traitlets.config import Config
    from traitlets.log import get_logger

    settings = Config(config)
    log: Any = get_logger()
    level = log.level
    with _exchanging:
        log.setLevel(logging.CRITICAL + 1)
        try:
            parts = {"coursedir": CourseDirectory(config=settings), "authenticator": Authenticator(config=settings)}
            yield ExchangeFactory(config=settings), parts, settings
        except (ExchangeError, OSError, RuntimeError) as error:
            raise CourseError("shardwise.hand-in-refused", reason=str(error)) from error
        finally:
            log.setLevel(level)


def _copies(handing: Any) -> list[Path]:
    """The copies that nbgrader's own exchange made: the student's, and the one that the teacher collects. An exchange
    of another kind (a service) has neither.
    """
    name = getattr(handing, "assignment_filename", "")
    if not name:
        return []
    own = Path(handing.cache_path) / (name.rsplit("+", 1)[0] if handing.add_random_string else name)
    return [each for each in (own, Path(handing.inbound_path) / name) if each.is_dir()]


def _moment(timestamp: str) -> datetime:
    from nbgrader.utils import parse_utc

    found: datetime = parse_utc(timestamp)
    return found.replace(tzinfo=UTC)


def _notebooks(folder: Path, id: str) -> dict[str, Path]:
    """The notebooks of an assignment's folder by language; the one at the top says in its metadata which is its own."""
    found: dict[str, Path] = {}
    top = folder / f"{id}{workspace.NOTEBOOK}"
    if top.is_file():
        found[_language(top)] = top
    for path in sorted((folder / "languages").glob(f"{id}.*{workspace.NOTEBOOK}")):
        code = path.name.removeprefix(f"{id}.").removesuffix(workspace.NOTEBOOK)
        found.setdefault(code, path)
    return found


def _language(path: Path) -> str:
    try:
        metadata = json.loads(path.read_bytes())["metadata"]
        return str(metadata.get("shardwise", {}).get("language") or metadata["course"]["lang"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return SOURCE


def _work(path: Path) -> str:
    """What stands in the cells of a notebook; what they showed when they were run is nobody's work."""
    data = path.read_bytes()
    with contextlib.suppress(ValueError, KeyError, TypeError, RecursionError):
        cells = [(each["cell_type"], "".join(each["source"]).strip()) for each in json.loads(data)["cells"]]
        data = json.dumps(cells).encode()
    return hashlib.sha256(data).hexdigest()


def _feedback(folder: Path) -> Path | None:
    return next(iter(sorted(folder.glob("*.html"))), None)


def _files(folder: Path) -> Iterator[str]:
    """Names of what is handed in, in order; what nbgrader adds is not the student's."""
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if (
            path.is_file()
            and not name.startswith("feedback/")
            and name not in ("timestamp.txt", "submission_secret.txt")
        ):
            yield name
