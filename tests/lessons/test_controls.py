"""The page's own formula is the planner's."""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from labs.planner.zero import PRECISIONS, STAGES, model_states
from lessons.controls import MemoryControl
from translations import language

SCRIPT = Path("lessons/controls/memory.js").resolve()


@pytest.mark.node
@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js to run the page's formula; none is here")
def test_the_page_computes_what_the_planner_computes(tmp_path: Path) -> None:
    costs = MemoryControl(language=language("en")).state["costs"]
    cases = list(itertools.product((1, 999, 7_500_000_000), STAGES, (1, 3, 64, 4096), costs))
    module = tmp_path / "memory.mjs"
    module.write_text(SCRIPT.read_text(encoding="utf-8"), encoding="utf-8")
    asked = [[parameters, stage, ranks, costs[name]] for parameters, stage, ranks, name in cases]
    program = (
        f"import {{ modelStates }} from {json.dumps(module.as_uri())};"
        f"console.log(JSON.stringify({json.dumps(asked)}.map((one) => modelStates(...one))))"
    )
    command = ["node", "--input-type=module", "-e", program]
    told = json.loads(subprocess.run(command, check=True, capture_output=True, timeout=30, text=True).stdout)
    for (parameters, stage, ranks, name), found in zip(cases, told, strict=True):
        expected = model_states(parameters=parameters, stage=stage, ranks=ranks, precision=name)
        assert found == {
            "parameters": expected.parameters,
            "gradients": expected.gradients,
            "optimizer_states": expected.optimizer_states,
        }
    assert set(costs) <= set(PRECISIONS)
