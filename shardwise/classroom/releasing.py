"""nbgrader's release, which also tells students the class's dates: from a terminal and from formgrader's button alike.

A course folder's `nbgrader_config.py` names `Release` as the exchange's part for releasing. It loads nbgrader.
"""

from __future__ import annotations

import os
from pathlib import Path

from nbgrader.exchange.default import ExchangeReleaseAssignment  # type: ignore[import-untyped]

from shardwise.classroom import announcing
from shardwise.classroom import course as classes
from translations import CourseError


class Release(ExchangeReleaseAssignment):  # type: ignore[misc]
    """As nbgrader's own; then the class is announced. A class that can't be does not undo the release.

    Nothing is released into another account's folder: everyone can make folders in the exchange, and who made the
    class's first could exchange what students get, and read what they hand in.
    """

    def copy_files(self) -> None:
        above = Path(self.root) / self.coursedir.course_id
        if not self.coursedir.groupshared and owner(above) not in (None, 0, os.getuid()):
            self.fail(str(CourseError("shardwise.exchange-not-yours", path=str(above), account=owner(above))))
        super().copy_files()
        folder = Path(self.coursedir.root)
        try:
            course = classes.read(folder)
            listed = [each.id for each in classes.students(folder)]
            unable = announcing.announce(course, exchange=Path(self.root), students=listed)
        except CourseError as error:
            self.log.error("%s", error)
            return
        if unable:
            self.log.warning("%s", CourseError("shardwise.announced-not-own", students=", ".join(unable)))


def owner(folder: Path) -> int | None:
    """The number of the account that owns a folder; None where there is none."""
    try:
        return folder.lstat().st_uid
    except OSError:
        return None
