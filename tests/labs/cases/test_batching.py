"""Schedules of requests: everybody is served, exactly once and in order; continuous batching never does worse."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from labs.cases.scheduling import SCHEDULERS, Request, account, continuous, latencies, requests, static

streams = st.builds(
    requests,
    st.integers(1, 20),
    rate=st.floats(0.05, 5),
    prompt=st.integers(1, 8),
    new=st.integers(2, 30),
    seed=st.integers(0, 2**31),
)


@settings(deadline=None)
@given(asked=streams, slots=st.integers(1, 6), name=st.sampled_from(sorted(SCHEDULERS)))
def test_everybody_gets_all_tokens_and_nobody_before_they_come(asked: list[Request], slots: int, name: str) -> None:
    schedule = list(SCHEDULERS[name](asked, slots=slots))
    got: dict[int, list[int]] = {}
    for each in schedule:
        assert len(each.slots) == slots
        for _, request, written in each.pairs():
            assert each.time >= request.arrives
            if written < request.new:
                got.setdefault(request.number, []).append(written)
    assert got == {request.number: list(range(request.new)) for request in asked}
    told = account(schedule)
    assert told.used == told.tokens == sum(request.new for request in asked)
    assert told.used + told.held + told.empty == slots * told.iterations
    starts = [min(each.time for each in schedule for _, r in each.joined if r.number == n) for n in sorted(got)]
    assert starts == sorted(starts), "first come, first served"


@settings(deadline=None)
@given(asked=streams, slots=st.integers(1, 6))
def test_continuous_holds_nothing_and_is_never_longer(asked: list[Request], slots: int) -> None:
    waiting, flowing = account(list(static(asked, slots=slots))), account(list(continuous(asked, slots=slots)))
    assert flowing.held == 0
    assert flowing.mean_latency <= waiting.mean_latency
    assert flowing.worst_latency <= waiting.worst_latency


def test_a_small_case_by_hand() -> None:
    asked = [Request(number=n, arrives=a, prompt=p, new=k) for n, a, p, k in ((0, 0, 3, 4), (1, 0, 1, 1), (2, 1, 2, 2))]
    waiting, flowing = account(list(static(asked, slots=2))), account(list(continuous(asked, slots=2)))
    assert (waiting.iterations, waiting.held, waiting.empty, waiting.filled) == (6, 3, 2, 2)
    assert (flowing.iterations, flowing.held, flowing.empty, flowing.filled) == (4, 0, 1, 2)
    assert (waiting.mean_latency, flowing.mean_latency) == ((4 + 1 + 5) / 3, (4 + 1 + 2) / 3)
    assert latencies(list(static(asked, slots=2))) == [4, 1, 5]
    assert latencies(list(continuous(asked, slots=2))) == [4, 1, 2]
