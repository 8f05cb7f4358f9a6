"""A few hundred learners in an exam at once, on one core over loopback; then the server is killed."""

from __future__ import annotations

import pytest

from tools import bench_service

pytestmark = [pytest.mark.soak, pytest.mark.serial, pytest.mark.timeout(900)]


def test_three_hundred_learners_lose_nothing() -> None:
    """Each answers, thinks for a moment, and answers again; what was acknowledged is there after SIGKILL."""
    found = bench_service.exams_at_once(learners=300, each=bench_service.QUESTIONS, pause=(2.0, 8.0))
    assert found["refused"] == 0
    assert found["lost"] == 0
    assert found["acknowledged"] == 300 * bench_service.QUESTIONS
    assert found["p99_ms"] < 2000, found


def test_all_press_the_button_in_the_same_moment() -> None:
    found = bench_service.exams_at_once(learners=300, each=5, pause=(0, 0))
    assert found["refused"] == 0
    assert found["lost"] == 0
    assert found["acknowledged"] == 300 * 5
