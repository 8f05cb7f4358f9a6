"""What offloading moves and needs: the papers' numbers come out, and the lab's bytes are the formula plus padding."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labs.planner.offload import (
    RESTING,
    bandwidth_needed,
    efficiency,
    intensity_of_activations,
    intensity_of_optimizer_states,
    intensity_of_parameters,
    predict_offload,
    states_offloaded,
    states_on_device,
    traffic_to_file,
    traffic_to_host,
    transfer_seconds,
)
from labs.planner.zero import Piece, model_states

precisions = st.sampled_from(sorted(RESTING))
pieces_of = st.lists(
    st.builds(Piece, trained=st.integers(1, 10_000), frozen=st.integers(0, 5_000)), min_size=1, max_size=8
)
above_zero = st.floats(1e-3, 1e15)


# Ren et al. 2021, table 1: bytes a parameter on the GPU, and by how much that is less than 16
@pytest.mark.parametrize(("gradients", "each", "reduction"), [(True, 4, 4), (False, 2, 8)])
def test_table_1_of_zero_offload(gradients: bool, each: int, reduction: int) -> None:
    held = states_on_device(parameters=10**9, gradients=gradients).total
    assert held == each * 10**9
    assert held * reduction == model_states(parameters=10**9, stage=0, ranks=1).total


def test_traffic_of_zero_offload() -> None:
    """Section 4.2: 4 bytes a parameter, shared by the ranks of ZeRO."""
    assert traffic_to_host(parameters=10**9) == 4 * 10**9
    assert traffic_to_host(parameters=10**9, stage=2, ranks=4) == 10**9
    assert traffic_to_file(parameters=10**9, stage=2, ranks=4) == 24 * 10**9 / 4


# Rajbhandari et al. 2021, section 4.2, at the empirical peak of a V100, 70 TFLOP/s
def test_bandwidths_of_zero_infinity() -> None:
    parameters = intensity_of_parameters(batch=1, sequence=1024)
    assert efficiency(intensity=parameters, bandwidth=70e9, peak_flops=70e12) > 0.5
    states = intensity_of_optimizer_states(batch=2, sequence=1024)
    # The paper's text says 1.5 TB/s; its own equation gives 1.23.
    assert bandwidth_needed(intensity=states, peak_flops=70e12, share=0.9) == pytest.approx(1.23e12, rel=0.001)
    assert intensity_of_activations(hidden=8192) == 24 * 8192
    assert transfer_seconds(size=32e9, bandwidth=16e9) == 2


@given(intensity=above_zero, peak=above_zero, share=st.floats(0.01, 0.99))
def test_the_two_sides_of_efficiency(intensity: float, peak: float, share: float) -> None:
    needed = bandwidth_needed(intensity=intensity, peak_flops=peak, share=share)
    assert efficiency(intensity=intensity, bandwidth=needed, peak_flops=peak) == pytest.approx(share)


@given(
    pieces=pieces_of, stage=st.integers(0, 3), ranks=st.integers(1, 8), precision=precisions, blocks=st.integers(1, 99)
)
def test_exact_bytes_are_the_formula_plus_padding(
    pieces: list[Piece], stage: int, ranks: int, precision: str, blocks: int
) -> None:
    found = predict_offload(pieces, stage=stage, ranks=ranks, precision=precision, block=16 * blocks)
    trained = sum(piece.trained for piece in pieces)
    slack = len(pieces)  # padding is less than one element of a shard in each unit, and less than N of a whole one
    slack *= 1 if stage >= 1 else ranks
    ideal = states_offloaded(parameters=trained, stage=stage, ranks=ranks, precision=precision)
    assert ideal - RESTING[precision] <= found.offloaded <= ideal + slack * RESTING[precision]
    moved = traffic_to_host(parameters=trained, stage=stage, ranks=ranks, precision=precision)
    each = {"bf16": 4, "fp32": 8, "fp64": 16}[precision]
    assert moved - each <= found.moved <= moved + slack * each
    assert found.states.optimizer_states == 4 * len(pieces)
    assert found.buffers <= each * 16 * blocks


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: efficiency(intensity=0, bandwidth=1, peak_flops=1), "above zero"),
        (lambda: bandwidth_needed(intensity=1, peak_flops=1, share=1), "between 0 and 1"),
        (lambda: transfer_seconds(size=1, bandwidth=0), "above zero"),
        (lambda: states_on_device(parameters=1, stage=4), "stages 0 to 3"),
    ],
)
def test_wrong_use_says_what_is_wrong(call: object, said: str) -> None:
    assert callable(call)
    with pytest.raises(ValueError, match=said):
        call()
