"""The tracker's books against a count by hand, against torch's own tracker, and against what torch says it sends."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.distributed._tools.mem_tracker import MemTracker
from torch.profiler import record_function
from torch.testing._internal.distributed.fake_pg import FakeStore

from labs.telemetry import CATEGORIES, Bytes, Count, Tracker

RANKS = 4


@pytest.fixture
def group() -> Iterator[dist.ProcessGroup]:
    """Four ranks of which only this one exists: what is sent goes nowhere, and what is counted is the same."""
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=RANKS)
    assert dist.group.WORLD is not None
    yield dist.group.WORLD
    dist.destroy_process_group()


def test_a_storage_counts_in_the_scope_in_which_it_was_allocated() -> None:
    kept: list[Tensor] = []
    with Tracker() as tracker:
        for category in CATEGORIES:
            with record_function(category):
                kept.append(torch.empty(10))
        with record_function("forward"):
            kept.append(torch.empty(100))
            with record_function("gradients"):
                kept.append(torch.empty(1000))
        with record_function("backward"):
            kept.append(torch.empty(10_000))
        assert tracker.now == Bytes(
            parameters=40, gradients=4040, optimizer_states=40, activations=440, communication=40, temporary=40_040
        )
        kept.clear()
        assert tracker.now == Bytes()
        assert tracker.peak_total == tracker.peak.total == 44_640


def test_views_and_another_data_are_counted_once_and_freed_with_the_last() -> None:
    with Tracker() as tracker:
        with record_function("parameters"):
            whole = torch.zeros(12)
        parameter = nn.Parameter(torch.zeros(0))
        parameter.data = whole[3:7]
        view, whole = whole.view(3, 4).T, torch.zeros(0)
        assert tracker.now.parameters == 48
        del view
        assert tracker.now.parameters == 48
        parameter.data = whole
        assert tracker.now.parameters == 0


def test_a_storage_that_grows_again_keeps_its_category() -> None:
    with Tracker() as tracker:
        with record_function("communication"):
            buffer = torch.empty(100, dtype=torch.bfloat16)
        with record_function("forward"):
            saved = buffer[10:20]
            buffer.untyped_storage().resize_(0)
            assert tracker.now == Bytes()
            buffer.untyped_storage().resize_(200)
            assert tracker.now == Bytes(communication=200)
        assert tracker.peak == Bytes(communication=200)
        del saved


def test_a_storage_that_predates_the_tracker_is_adopted_or_left_out() -> None:
    old, other = torch.zeros(8), torch.zeros(4)
    with Tracker() as tracker:
        tracker.adopt([old], "parameters")
        held = [old[2:], other[1:], other.add_(1)]
        assert tracker.now == Bytes(parameters=32)
        tracker.retag(old[2:], "gradients")
        assert tracker.now == tracker.peak.__class__(gradients=32)
        assert tracker.peak == Bytes(parameters=32, gradients=32)
        assert tracker.peak_total == 32
    del held
    with pytest.raises(KeyError):
        tracker.retag(old, "weights")


def test_resize_of_a_tensor_and_out_arguments_are_seen() -> None:
    with Tracker() as tracker:
        a, b = torch.empty(2), torch.empty(0)
        a.resize_(50)
        torch.add(a, a, out=b)
        assert tracker.now.temporary == 400


def test_a_tensor_made_from_python_values_is_counted() -> None:
    with Tracker() as tracker:
        made = torch.tensor([1.0, 2.0, 3.0])
        assert tracker.now.temporary == made.nbytes


def test_rest_is_taken_when_the_optimizer_phase_begins() -> None:
    with Tracker() as tracker:
        with record_function("gradients"):
            held = [torch.empty(5)]
        with record_function("optimizer"):
            held.append(torch.empty(7))
            with record_function("optimizer"):
                pass
        assert tracker.rest == Bytes(gradients=20)
        tracker.reset_peak()
        assert tracker.peak == Bytes(gradients=20, temporary=28)
        del held


def test_gradients_made_in_backward_hooks_and_saved_tensors() -> None:
    weight = nn.Parameter(torch.ones(16))
    seen: list[Bytes] = []
    with Tracker() as tracker:
        tracker.adopt([weight], "parameters")
        weight.register_post_accumulate_grad_hook(lambda p: seen.append(tracker.now))
        with record_function("forward"):
            loss = (weight * 2).exp().sum()
        assert tracker.now == Bytes(parameters=64, activations=64 + 4)
        with record_function("backward"):
            loss.backward()
        assert weight.grad is not None
        tracker.retag(weight.grad, "gradients")
        assert tracker.now == Bytes(parameters=64, gradients=64, activations=4)
    assert len(seen) == 1


def test_the_patched_resize_goes_with_the_tracker() -> None:
    before = torch.UntypedStorage.resize_
    with Tracker():
        assert torch.UntypedStorage.resize_ is not before
    assert torch.UntypedStorage.resize_ is before
    assert "resize_" not in vars(torch.UntypedStorage)


# --- a random program, counted by hand


@dataclass(eq=False, slots=True)
class Cell:
    """What a storage should be counted as."""

    category: str
    size: int


def by_hand(cells: Iterable[Cell | None]) -> Bytes:
    amounts = dict.fromkeys(CATEGORIES, 0)
    for cell in {cell for cell in cells if cell is not None}:
        amounts[cell.category] += cell.size
    return Bytes(**amounts)


STEP = st.tuples(
    st.sampled_from(["allocate", "operate", "view", "free", "resize", "retag", "data", "save"]),
    st.integers(0, 5),
    st.integers(0, 5),
    st.sampled_from([*CATEGORIES, ""]),
    st.sampled_from(["forward", "backward", "optimizer", ""]),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(STEP, max_size=50))
def test_any_program_is_counted_as_by_hand(program: list[tuple[str, int, int, str, str]]) -> None:
    tensors: list[Tensor | None] = [None] * 6
    cells: list[Cell | None] = [None] * 6
    peak, peak_total = dict.fromkeys(CATEGORIES, 0), 0
    with Tracker() as tracker:
        for verb, i, j, category, phase in program:
            given_category = category or ("activations" if phase == "forward" else "temporary")
            with record_function(phase), record_function(category):
                if verb == "allocate":
                    tensors[i], cells[i] = None, None
                    tensors[i], cells[i] = torch.empty(8 + j), Cell(given_category, 4 * (8 + j))
                elif tensors[i] is None or cells[i] is None:
                    continue
                elif verb == "operate" and cells[i].size:
                    tensors[j] = None if i != j else tensors[j]
                    tensors[j] = tensors[i].flatten()[:1] * 2
                    cells[j] = Cell(given_category, 4)
                elif verb == "view" and cells[i].size:
                    tensors[j], cells[j] = tensors[i][:1].detach(), cells[i]
                elif verb == "free":
                    tensors[i] = cells[i] = None
                elif verb == "resize":
                    cells[i].size = 0 if cells[i].size else 256
                    tensors[i].untyped_storage().resize_(cells[i].size)
                elif verb == "retag" and category:
                    tracker.retag(tensors[i], category)
                    cells[i].category = category
                elif verb == "data" and tensors[j] is not None:
                    tensors[i].data, cells[i] = tensors[j], cells[j]
                elif verb == "save" and cells[i].size:
                    tensors[j] = tensors[i].detach().requires_grad_().exp()
                    tensors[j], cells[j] = tensors[j].detach(), Cell(given_category, 4 * tensors[i].numel())
            expected = by_hand(cells)
            assert tracker.now == expected
            peak = {name: max(peak[name], value) for name, value in expected.as_dict().items()}
            peak_total = max(peak_total, expected.total)
            assert all(tracker.peak.as_dict()[name] >= value for name, value in peak.items())
            assert tracker.peak_total >= peak_total
        tensors.clear()
        assert tracker.now == Bytes()


# --- against torch's own tracker


def small_model() -> tuple[nn.Module, torch.optim.Optimizer, Tensor]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 32))
    return model, torch.optim.Adam(model.parameters(), fused=True), torch.randn(8, 32)


def train_step(model: nn.Module, optimizer: torch.optim.Optimizer, x: Tensor) -> None:
    with record_function("forward"):
        loss = nn.functional.mse_loss(model(x), x)
    with record_function("backward"):
        loss.backward()
    optimizer.step()
    optimizer.zero_grad()


@pytest.mark.filterwarnings("ignore")  # torch's MemTracker warns of itself
def test_totals_and_peak_equal_torchs_own_tracker() -> None:
    theirs: list[int] = []
    model, optimizer, x = small_model()
    reference = MemTracker()
    reference.track_external(model, optimizer, x)
    with reference:
        for _ in range(3):
            train_step(model, optimizer, x)
            reference.reset_mod_stats()
            theirs.append(reference.get_tracker_snapshot()[torch.device("cpu")]["Total"])
    their_peak = reference.get_tracker_snapshot("peak")[torch.device("cpu")]["Total"]
    del reference
    del torch.UntypedStorage.resize_  # which it put over the inherited one, and left there

    model, optimizer, x = small_model()
    ours: list[int] = []
    with Tracker(model=model, optimizer=optimizer) as tracker:
        tracker.adopt([x], "temporary")
        for _ in range(3):
            train_step(model, optimizer, x)
            ours.append(tracker.now.total)
    p = sum(parameter.nbytes for parameter in model.parameters())
    scalars = 4 * len(list(model.parameters()))
    assert (ours, tracker.peak_total) == (theirs, their_peak)
    assert tracker.rest.parameters == tracker.rest.gradients == p
    assert tracker.rest.optimizer_states == 2 * p + scalars
    assert tracker.now == Bytes(parameters=p, optimizer_states=2 * p + scalars, temporary=x.nbytes)


# --- collectives


@pytest.mark.usefixtures("group")
def test_each_collective_counts_the_unsharded_buffer() -> None:
    shard, whole = torch.zeros(10, dtype=torch.bfloat16), torch.zeros(10 * RANKS, dtype=torch.bfloat16)
    parts = [torch.zeros_like(shard) for _ in range(RANKS)]
    with Tracker() as tracker:
        dist.all_reduce(whole)
        dist.all_gather_single(whole, shard)
        dist.all_gather(parts, shard)
        dist.reduce_scatter_single(shard, whole)
        dist.reduce_scatter(shard, parts)
        dist.broadcast(shard, src=0)
        dist.all_to_all_single(whole, whole)
        dist.barrier()
        dist.send(shard, dst=1)
        dist.recv(shard, src=1)
    assert tracker.collectives == {
        "all_reduce": Count(count=1, bytes=160),
        "all_gather": Count(count=2, bytes=160),
        "reduce_scatter": Count(count=2, bytes=160),
        "broadcast": Count(count=1, bytes=20),
        "all_to_all": Count(count=1, bytes=80),
        "barrier": Count(count=1, bytes=0),
        "send": Count(count=1, bytes=20),
        "receive": Count(count=1, bytes=20),
    }
    tracker.reset_collectives()
    assert tracker.collectives == {}


def test_functional_collectives_count_the_same(group: dist.ProcessGroup) -> None:
    shard, whole = torch.zeros(10), torch.zeros(10 * RANKS)
    with Tracker() as tracker:
        results = [
            functional.all_reduce(whole, "sum", group),
            functional.all_gather_single(shard, 0, group),
            functional.reduce_scatter_single(whole, "sum", 0, group),
            functional.broadcast(shard, 0, group),
        ]
        for result in results:
            functional.wait_tensor(result)
    assert tracker.collectives == {
        "all_reduce": Count(count=1, bytes=320),
        "all_gather": Count(count=1, bytes=160),
        "reduce_scatter": Count(count=1, bytes=160),
        "broadcast": Count(count=1, bytes=40),
    }


@pytest.mark.usefixtures("group")
def test_reports_are_hidden_and_clipping_is_listed_apart() -> None:
    norm, gradients = torch.zeros(()), torch.zeros(6)
    with Tracker() as tracker:
        with record_function("report"), record_function("clipping"):
            dist.all_reduce(norm)
        with record_function("clipping"):
            dist.all_reduce(norm)
            dist.all_reduce(gradients)
        dist.all_reduce(norm)
    assert tracker.collectives == {"clipping": Count(count=1, bytes=8), "all_reduce": Count(count=2, bytes=56)}


# --- what it costs


def test_it_stays_cheap_and_lets_nothing_live_longer() -> None:
    gc.collect()
    with Tracker() as tracker:
        a = torch.zeros(1000)
        storage = a.untyped_storage()
        del a, storage
        assert tracker.now.total == 0


def test_slow_motion_waits_at_phases_and_at_communication() -> None:
    started = time.monotonic()
    with Tracker(pause=0.02):
        with record_function("forward"):
            pass
        with record_function("communication"):
            pass
    assert time.monotonic() - started >= 0.04
