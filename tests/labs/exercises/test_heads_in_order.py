"""The rows of Megatron's fused attention matrix: each way to order or cut them wrongly gets its own text."""

from __future__ import annotations

import pytest

from labs.exercises import check, exercise

ORDER = "by_head = by_kind.transpose(0, 1)"
MINE = "mine = by_head.chunk(ranks)[rank]"
RETURN = "return mine.reshape(-1, features)"
KINDS = "by_kind.flatten(1, 2)"
WRONG = [
    (RETURN, "return mine.tolist()", "shape/no-tensor", "returns list"),
    (RETURN, "return mine", "shape/shape", "must be"),
    (ORDER, "by_head = by_kind", "order/as-it-was", "old order"),
    (MINE, "mine = weight.chunk(ranks)[rank]", "order/as-it-was", "old order"),
    (MINE, f"mine = {KINDS}.transpose(0, 1).chunk(ranks)[rank]", "order/by-feature", "row by row"),
    (
        MINE,
        "mine = by_kind.permute(2, 1, 0, 3).flatten(0, 2).chunk(ranks)[rank]",
        "order/features-first",
        "to the front",
    ),
    (
        MINE,
        f"mine = by_head if ranks == 1 else {KINDS}.chunk(ranks, 1)[rank]",
        "part/by-kind",
        "right heads, but first all its queries",
    ),
    (MINE, "mine = by_head.chunk(ranks)[-1 - rank]", "part/other-rank", "another rank's rows"),
    (MINE, "mine = by_head.flatten(0, 2).view(-1, ranks, features)[:, rank]", "part/alternating", "every 2-th row"),
    (MINE, "mine = by_head.chunk(min(ranks, 2))[rank % min(ranks, 2)]", "more-ranks/shape", "must be"),
    (RETURN, "return 2 * mine.reshape(-1, features)", "order/factor", "2 times"),
]


@pytest.mark.parametrize(("old", "new", "failed_at", "says"), WRONG, ids=[each[2] + each[1][:20] for each in WRONG])
def test_a_wrong_order_fails_where_it_should(old: str, new: str, failed_at: str, says: str) -> None:
    code = exercise("heads-in-order").code("solution")
    assert old in code
    verdict = check("heads-in-order", code.replace(old, new), patience=6)
    assert verdict.failed_at == failed_at, verdict.message
    assert says in verdict.message
