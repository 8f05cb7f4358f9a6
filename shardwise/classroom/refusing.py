"""What formgrader's button and `nbgrader autograde` do to work on a class's assignments: nothing, and they say so.

nbgrader would run it in a kernel, as the teacher, with all that a teacher may read and write. It loads nbgrader.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nbgrader.converters.base import NbGraderException  # type: ignore[import-untyped]
from nbgrader.preprocessors import NbGraderPreprocessor  # type: ignore[import-untyped]

from shardwise.classroom import course as classes
from translations import CourseError


class Refused(NbGraderPreprocessor):  # type: ignore[misc]
    """The first step of autograde, before anything is run. Notebooks of the teacher's own go on as ever."""

    def preprocess(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        own = resources["nbgrader"]
        folder = Path(own["db_url"].removeprefix("sqlite:///")).parent
        if any(each.id == own["assignment"] for each in classes.read(folder).assignments):
            said = CourseError("shardwise.autograde-refused", assignment=own["assignment"])
            self.log.error("%s", said)
            raise NbGraderException(str(said))
        return nb, resources
