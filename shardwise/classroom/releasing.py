"""nbgrader's release, which also tells students the class's dates: from a terminal and from formgrader's button alike.

A course folder's `nbgrader_config.py` names `Release` as the exchange's part for releasing. It loads nbgrader.
"""

from __future__ import annotations

from pathlib import Path

from nbgrader.exchange.default import ExchangeReleaseAssignment  # type: ignore[import-untyped]

from shardwise.classroom import announcing
from shardwise.classroom import course as classes
from translations import CourseError


class Release(ExchangeReleaseAssignment):  # type: ignore[misc]
    """As nbgrader's own; then the class is announced. A class that can't be does not undo the release."""

    def copy_files(self) -> None:
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
