"""A tenth of what `make bench` grades: a torch lab's submissions on 2, 3 and 4 ranks, each in a sandbox of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.shardwise.classroom.test_sandbox import BARRED
from tools import bench_grading


@pytest.mark.skipif(bool(BARRED), reason=BARRED)
@pytest.mark.serial
@pytest.mark.timeout(600)
def test_a_class_of_twelve_is_graded_whole_by_two_workers(tmp_path: Path) -> None:
    """`ours` asserts that each passed, in a sandbox; who was graded also cost something."""
    took = bench_grading.ours(tmp_path / "class", count=12, workers=2)
    assert took["cpu"] > 12
