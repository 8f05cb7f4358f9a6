"""What of this process is in the machine's memory, as the operating system counts it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

STATUS = Path("/proc/self/status")


@dataclass(frozen=True, slots=True, kw_only=True)
class Resident:
    """Bytes in memory: `anonymous` has no file behind it, `mapped` is a window on files (libraries as well). Where the
    system does not tell them apart, `mapped` is None and all are `anonymous`.
    """

    anonymous: int
    mapped: int | None

    def as_dict(self) -> dict[str, int | None]:
        return {"anonymous": self.anonymous, "mapped": self.mapped}


def resident() -> Resident:
    """Now. On Linux from /proc, elsewhere as psutil has it."""
    try:
        told = dict(line.split(":", 1) for line in STATUS.read_text(encoding="ascii").splitlines() if ":" in line)
        kib = {name: int(told[name].split()[0]) for name in ("RssAnon", "RssFile", "RssShmem")}
    except (OSError, LookupError, ValueError):
        import psutil

        return Resident(anonymous=psutil.Process().memory_info().rss, mapped=None)
    return Resident(anonymous=1024 * kib["RssAnon"], mapped=1024 * (kib["RssFile"] + kib["RssShmem"]))
