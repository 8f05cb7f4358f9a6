"""torch.profiler around one step, read as lanes.

Of torch's private names it needs `_ExperimentalConfig`, with which the profiler watches all threads of the process:
those of gloo and of the slow link are not started by the one that computes.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch.profiler import profile, supported_activities

from labs.telemetry.trace import Lanes, read


@contextmanager
def traced(found: list[Lanes]) -> Iterator[None]:
    """What runs inside, as lanes added to `found`."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # it would print that it starts and stops
    activities = supported_activities()  # type: ignore[no-untyped-call]
    everywhere = torch._C._profiler._ExperimentalConfig(profile_all_threads=True)
    with profile(activities=activities, experimental_config=everywhere) as profiler:
        yield
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        found.append(read(path))
