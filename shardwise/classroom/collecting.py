"""nbgrader's collect, for an inbound folder in which every student can put anything.

nbgrader copies what lies there as the teacher, through links too, and only warns where a folder belongs to somebody
else than its name says. Here a folder counts for the student whose account owns it; ordinary files of that account are
copied and nothing else; and whatever one student left there, the others' work is collected. It loads nbgrader.
"""

from __future__ import annotations

import os
import pwd
import shutil
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from nbgrader.exchange import ExchangeError  # type: ignore[import-untyped]
from nbgrader.exchange.default import ExchangeCollect  # type: ignore[import-untyped]
from nbgrader.utils import ignore_patterns, parse_utc  # type: ignore[import-untyped]

from shardwise.classroom import course as classes
from shardwise.classroom.visible import visible
from translations import CourseError

NOTE = "timestamp.txt"
SLACK = timedelta(minutes=10)
"""What lies between the moment that a hand-in is named after and its last file, at most, where nothing is wrong."""
_NOBODY = ""


class Collect(ExchangeCollect):  # type: ignore[misc]
    """As nbgrader's own, in what it chooses and when it copies."""

    src_records: list[dict[str, Any]]

    def init_src(self) -> None:
        super().init_src()
        self.src_records = [each for each in self.src_records if each["username"] != _NOBODY]

    def _path_to_record(self, path: str) -> dict[str, Any]:
        """What a folder's name says; of nobody where it is no name of a hand-in, or another account's folder."""
        place = Path(path)
        try:
            found: dict[str, Any] = super()._path_to_record(path)
            about = place.lstat()
        except (ExchangeError, ValueError, OverflowError, OSError) as error:
            return self._of_nobody(place, str(error))
        if not stat.S_ISDIR(about.st_mode) or not classes.is_student(found["username"]):
            return self._of_nobody(place, "")
        if self.check_owner and not _owns(found["username"], about.st_uid):
            return self._of_nobody(place, _name(about.st_uid))
        return found

    def _of_nobody(self, place: Path, reason: str) -> dict[str, Any]:
        said = CourseError("shardwise.collect-not-own", folder=visible(place.name, longest=200), reason=visible(reason))
        self.log.warning("%s", said)
        return {"username": _NOBODY, "filename": place.name, "timestamp": datetime.min}

    def do_copy(self, src: str, dest: str, log: Any = None) -> None:
        """Copies ordinary files of the folder's owner. What can't be copied is told, and the next student follows."""
        source, place = Path(src), Path(dest)
        try:
            left, came = self._copied(source, place)
            self._dated(source, place, came)
        except (OSError, ValueError) as error:
            shutil.rmtree(place, ignore_errors=True)
            self.log.error("%s", CourseError("shardwise.collect-not-own", folder=source.name, reason=str(error)))
            return
        if left:
            shown = ", ".join(visible(each, longest=100) for each in left[:10])
            self.log.warning("%s", CourseError("shardwise.collect-left", folder=source.name, files=shown))

    def _copied(self, source: Path, place: Path) -> tuple[list[str], datetime | None]:
        """What was left out, and when the note of the moment came to lie there, by the system's clock."""
        spared = ignore_patterns(
            exclude=self.coursedir.ignore,
            include=self.coursedir.include,
            max_file_size=self.coursedir.max_file_size,
            log=self.log,
        )
        room = 1000 * self.coursedir.max_dir_size
        left: list[str] = []
        came: datetime | None = None
        owner: int | None = None
        for folder, folders, files, at in os.fwalk(source, follow_symlinks=False):
            owner = os.fstat(at).st_uid if owner is None else owner
            inner = Path(folder).relative_to(source)
            links = [each for each in folders if _is_link(each, at)]
            usual = [each for each in files if stat.S_ISREG(os.lstat(each, dir_fd=at).st_mode)]
            unwanted = set(spared(folder, [*usual, *(each for each in folders if each not in links)]))
            left += [str(inner / each) for each in sorted({*links, *files} - {*usual})]
            folders[:] = [each for each in folders if each not in links and each not in unwanted]
            (place / inner).mkdir(parents=True, exist_ok=True)
            for name in usual:
                if name in unwanted:
                    continue
                with os.fdopen(os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=at), "rb") as opened:
                    about = os.fstat(opened.fileno())
                    if not stat.S_ISREG(about.st_mode) or about.st_uid != owner:
                        left.append(str(inner / name))
                        continue
                    if (room := room - about.st_size) < 0:
                        raise OSError(f"more than {self.coursedir.max_dir_size} KB")
                    with (place / inner / name).open("wb") as written:
                        shutil.copyfileobj(opened, written)
                if inner == Path() and name == NOTE:
                    came = datetime.fromtimestamp(about.st_ctime, UTC)
        if owner is None:
            raise OSError(f"{source.name} is not there any more")
        if self.coursedir.groupshared:
            for each in (place, *place.rglob("*")):
                each.chmod(each.stat().st_mode | (0o2770 if each.is_dir() else 0o660))
        return left, came

    def _dated(self, source: Path, place: Path, came: datetime | None) -> None:
        """The note says what the folder's name says, by which nbgrader chose it. A moment long before the files came
        is told: whoever hands in can write any.
        """
        named: datetime = super()._path_to_record(str(source))["timestamp"]
        try:
            same = parse_utc((place / NOTE).read_text(encoding="utf-8")[:100].strip()) == named
        except (OSError, ValueError, OverflowError):
            same = False
        if not same:
            (place / NOTE).write_text(f"{named:%Y-%m-%d %H:%M:%S.%f} UTC", encoding="utf-8")
        moment = named.replace(tzinfo=UTC)
        if came is not None and came - moment > SLACK:
            values = {"said": f"{moment:%Y-%m-%d %H:%M} UTC", "came": f"{came:%Y-%m-%d %H:%M} UTC"}
            self.log.warning("%s", CourseError("shardwise.collect-later", folder=source.name, **values))


def _owns(student: str, account: int) -> bool:
    """Whether a folder of this account is the student's. Where students are no accounts of this machine nothing can be
    said, and it is taken to be.
    """
    try:
        return pwd.getpwnam(student).pw_uid == account
    except KeyError:
        return True


def _name(account: int) -> str:
    try:
        return pwd.getpwuid(account).pw_name
    except KeyError:
        return str(account)


def _is_link(name: str, at: int) -> bool:
    return stat.S_ISLNK(os.lstat(name, dir_fd=at).st_mode)
