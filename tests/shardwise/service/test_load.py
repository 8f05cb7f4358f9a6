"""The load test in small: learners at once over real sockets, a kill without warning, and nothing lost."""

from __future__ import annotations

import pytest

from tools import bench_service


@pytest.mark.serial
def test_learners_at_once_lose_nothing_when_the_server_is_killed() -> None:
    found = bench_service.exams_at_once(learners=20, each=6, pause=(0, 0.05))
    assert found["refused"] == 0
    assert found["lost"] == 0
    assert found["acknowledged"] == 120
