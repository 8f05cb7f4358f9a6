"""Model states in each stage of ZeRO while parameters and ranks are moved.

The page computes what it draws, so that it follows a slider without the kernel. Its formula is the one line of
`memory.js` that a test holds against `labs.planner.zero.model_states`.
"""

from __future__ import annotations

from pathlib import Path

import anywidget
import traitlets

from labs.planner.zero import PRECISIONS, STAGES
from labs.telemetry.drawing.palette import LOOKS
from translations import Language, translator

FOLDER = Path(__file__).parent
STATES = ("parameters", "optimizer_states", "gradients")
PARAMETERS = (1e8, 1e12)
RANKS = (1, 4096)


class MemoryControl(anywidget.AnyWidget):
    """Sliders for P and N, a choice of precision, and a bar for each stage. `alt` tells the same in words."""

    _esm = FOLDER / "memory.js"
    _css = FOLDER / "memory.css"
    state = traitlets.Dict().tag(sync=True)
    choice = traitlets.Dict().tag(sync=True)

    def __init__(
        self, *, language: Language, parameters: float = 7.5e9, ranks: int = 64, precision: str = "bf16"
    ) -> None:
        super().__init__()
        text = translator(language)

        def said(name: str) -> str:
            return text(f"lessons.control-{name}")

        self.state = {
            "lang": language.code,
            "dir": language.direction,
            "locale": f"{language.code}-u-nu-latn",
            "limits": {"parameters": PARAMETERS, "ranks": RANKS},
            "stages": [{"stage": stage, "name": said(f"stage-{stage}")} for stage in STAGES],
            "costs": {
                name: {
                    "parameters": cost.parameter,
                    "gradients": cost.gradient,
                    "optimizer_states": cost.optimizer_states,
                }
                for name, cost in PRECISIONS.items()
                if name != "fp64"
            },
            "looks": {
                state: {"name": text("labs.telemetry-category-" + state.replace("_", "-")), "colour": look.colour}
                for state in STATES
                for look in [LOOKS[state]]
            },
            "words": {name: said(name) for name in ("title", "parameters", "ranks", "precision", "stage", "total")},
        }
        self.choice = {"parameters": parameters, "ranks": ranks, "precision": precision}
