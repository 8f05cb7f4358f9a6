"""The norm over a mesh: each way to count wrongly gets its own text."""

from __future__ import annotations

import pytest

from labs.exercises import check, exercise

AXES = 'for axis in ("tensor", "pipeline"):'
COUNTS = 'counts = (each.split or place.number["tensor"] == 0) and not each.copy'
ROOT = "return squares.sqrt()"
WRONG = [
    (ROOT, "return squares.sqrt().item()", "shape/no-number", "returns float"),
    (ROOT, "return squares.sqrt().float()", "shape/dtype", "float32"),
    (AXES, "for axis in ():", "axes/own", "this rank holds itself"),
    (AXES, 'for axis in ("tensor",):', "axes/tensor-only", "one pipeline stage"),
    (AXES, 'for axis in ("pipeline",):', "axes/pipeline-only", "one tensor rank's part"),
    (AXES, 'for axis in ("tensor", "pipeline", "data"):', "axes/data-too", "counted 2 times"),
    (COUNTS, "counts = not each.copy", "once/whole-often", "counted by each of them, 2 times"),
    (COUNTS, 'counts = each.split or place.number["tensor"] == 0', "once/copy-too", "counted on both"),
    (COUNTS, "counts = True", "once/everything", "all that it holds"),
    (ROOT, "return squares", "norm/squares", "not its root"),
    ("    for axis in", "    squares = squares.sqrt()\n    for axis in", "norm/norms-added", "3 and 4 make 5"),
]


@pytest.mark.parametrize(("old", "new", "failed_at", "says"), WRONG, ids=[each[2] for each in WRONG])
def test_a_wrong_norm_fails_where_it_should(old: str, new: str, failed_at: str, says: str) -> None:
    code = exercise("global-norm").code("solution")
    assert old in code
    code = code.replace(old, new)
    if failed_at == "norm/norms-added":
        code = code.replace(ROOT, "return squares")
    verdict = check("global-norm", code, patience=6)
    assert verdict.failed_at == failed_at, verdict.message
    assert says in verdict.message
