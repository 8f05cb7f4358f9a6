"""Files that one process lengthens line by line while others read them. A line is taken once it is whole, so a writer
that is killed in the middle of one loses no other.
"""

from __future__ import annotations

from io import BufferedReader
from pathlib import Path


def end_half_a_line(path: Path) -> None:
    """Before a file is lengthened again, end the line in which its last writer was killed."""
    if path.exists():
        with path.open("r+b") as file:
            if file.seek(0, 2):
                file.seek(-1, 2)
                if file.read(1) != b"\n":
                    file.write(b"\n")


class Tail:
    """The whole lines that were appended to a file since the last look. The file may not be there yet."""

    def __init__(self, path: Path) -> None:
        self._path, self._rest = path, b""
        self._file: BufferedReader | None = None

    def lines(self) -> list[bytes]:
        if self._file is None:
            try:
                self._file = self._path.open("rb")
            except FileNotFoundError:
                return []
        *whole, self._rest = (self._rest + self._file.read()).split(b"\n")
        return whole

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
