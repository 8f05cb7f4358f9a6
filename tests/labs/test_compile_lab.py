"""The lab of torch.compile: what it measures, that both trainings are one, and what it says where something is missing.

With the real compiler it takes half a minute, so CI does that once; the longer case is a soak.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch

from labs import compile as lab
from labs.catalogue import LabRun, formula, run_lab
from labs.options.compile import CompileOptions
from translations import CourseError, translator

SMALL: dict[str, Any] = {"layers": 1, "hidden": 16, "sequence": 16, "steps": 5}


@pytest.fixture(scope="module")
def captured() -> LabRun:
    return run_lab("compile", backend="aot_eager", **SMALL)


def told(run: LabRun) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(run.data))["compile"]
    return found


def test_eager_and_compiled_train_alike(captured: LabRun) -> None:
    found = told(captured)
    assert captured.losses == pytest.approx(captured.data["reference_losses"], abs=lab.BOUND)
    assert found["losses"]["eager"] == pytest.approx(captured.losses, abs=lab.BOUND)
    assert found["largest_difference"] <= found["bound"] == lab.BOUND
    assert len(set(captured.losses)) == SMALL["steps"]


def test_capture_alone_fuses_nothing(captured: LabRun) -> None:
    found = told(captured)
    assert (found["graphs"], found["graph_breaks"]) == (1, 0)
    assert found["captured"] > 0
    assert found["operations"]["fused"] == 0
    assert found["operations"]["library"] == found["operations"]["eager"]
    assert found["peak"]["compiled"] == found["peak"]["eager"]
    assert found["first_in_eager_steps"] > 1


def test_states_are_the_formulas(captured: LabRun) -> None:
    assert captured.model_states() == formula("compile", **SMALL).model_states


def fused(run: LabRun) -> None:
    """What the compiler does, and what it does to a tracker."""
    found = told(run)
    assert found["largest_difference"] <= found["bound"]
    assert (found["graphs"], found["graph_breaks"]) == (1, 0)
    operations, peak = found["operations"], found["peak"]
    assert operations["fused"] >= 5
    assert operations["fused"] + operations["library"] < 0.8 * operations["eager"]
    assert peak["compiled"] < peak["eager"]
    # The profiler's own sum of allocations is the tracker's, to the byte; and under a tracker nothing is fused.
    assert found["under_a_tracker"] == {"fused": 0, "peak": peak["eager"]}
    assert found["first_in_eager_steps"] > 50


def test_the_compiler_fuses_and_a_tracker_undoes_it() -> None:
    fused(run_lab("compile", timeout=150, **SMALL))


@pytest.mark.soak
def test_two_layers_with_wider_ones() -> None:
    fused(run_lab("compile", layers=2, hidden=128, steps=20))


def test_without_a_compiler_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch._inductor.config.cpp.cxx", ("no-such-compiler",))
    monkeypatch.setattr("labs.runner.rank.device", lambda: torch.device("cpu"))
    with pytest.raises(CourseError, match=r"needs a compiler.*aot_eager"):
        lab.needs_a_compiler()
    monkeypatch.setattr("labs.runner.rank.device", lambda: torch.device("cuda:0"))
    monkeypatch.setattr(lab, "find_spec", lambda _: None)
    with pytest.raises(CourseError, match=r"Triton.*aot_eager"):
        lab.needs_a_compiler()


@pytest.mark.parametrize(
    ("options", "message"),
    [({"backend": "nvfuser"}, "unknown-choice"), ({"ranks": 2}, "ranks-do-not-fit"), ({"steps": 1}, "option-at-least")],
)
def test_what_cannot_run_is_refused_with_a_reason(options: dict[str, Any], message: str) -> None:
    with pytest.raises(CourseError) as refused:
        run_lab("compile", **options)
    assert refused.value.id == f"labs.{message}"
    assert refused.value.in_language(translator("ar")) != str(refused.value)


def test_more_ranks_are_refused_by_the_options_too() -> None:
    with pytest.raises(CourseError, match="1"):
        CompileOptions().checked(ranks=2)
