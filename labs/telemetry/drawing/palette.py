"""One look for each category, in live plots, figures and on paper: a colour and a pattern, never colour alone.

The colours are those of Okabe and Ito (2008), told apart by readers of every kind of colour vision; they hold on white
and on black.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from labs.telemetry.categories import CATEGORIES, PHASES

Pattern = Literal["plain", "rising", "dots", "level", "crossed", "upright"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """`ink` draws the pattern on the colour."""

    colour: str
    ink: str
    pattern: Pattern


_WHITE, _BLACK, _FAINT = "rgba(255,255,255,0.6)", "rgba(0,0,0,0.42)", "rgba(0,0,0,0.2)"

LOOKS: dict[str, Look] = {
    "parameters": Look(colour="#0072B2", ink=_WHITE, pattern="plain"),
    "gradients": Look(colour="#E69F00", ink=_BLACK, pattern="rising"),
    "optimizer_states": Look(colour="#009E73", ink=_WHITE, pattern="dots"),
    "activations": Look(colour="#56B4E9", ink=_BLACK, pattern="level"),
    "communication": Look(colour="#D55E00", ink=_WHITE, pattern="crossed"),
    "temporary": Look(colour="#CC79A7", ink=_BLACK, pattern="upright"),
}
assert tuple(LOOKS) == CATEGORIES

# The slots of a pipeline's timetable: a forward makes activations and a backward gradients, so they look alike.
SLOTS: dict[str, Look] = {
    "F": Look(colour="#56B4E9", ink=_FAINT, pattern="plain"),
    "B": Look(colour="#E69F00", ink=_FAINT, pattern="rising"),
    "W": Look(colour="#F0E442", ink=_FAINT, pattern="dots"),
}

# What a rank does, on the timeline of a run.
STRETCHES: dict[str, Look] = {
    "training": Look(colour="#56B4E9", ink=_BLACK, pattern="plain"),
    "lost": Look(colour="#D55E00", ink=_WHITE, pattern="rising"),
    "saving": Look(colour="#009E73", ink=_WHITE, pattern="dots"),
    "starting": Look(colour="#F0E442", ink=_BLACK, pattern="upright"),
}

# What the planner counts on a rank beside the model states and activations.
PLANNED: dict[str, Look] = {
    "gathered": Look(colour="#D55E00", ink=_WHITE, pattern="crossed"),
    "buckets": Look(colour="#F0E442", ink=_BLACK, pattern="upright"),
    "logits": Look(colour="#CC79A7", ink=_BLACK, pattern="rising"),
    "slack": Look(colour="#999999", ink=_BLACK, pattern="dots"),
}

# What a step of a planned run is spent on.
SPENT: dict[str, Look] = {
    "computing": Look(colour="#0072B2", ink=_WHITE, pattern="plain"),
    "recomputing": Look(colour="#56B4E9", ink=_BLACK, pattern="level"),
    "waiting": Look(colour="#F0E442", ink=_BLACK, pattern="upright"),
    "bubble": Look(colour="#999999", ink=_BLACK, pattern="dots"),
    "tensor": Look(colour="#D55E00", ink=_WHITE, pattern="crossed"),
    "context": Look(colour="#CC79A7", ink=_BLACK, pattern="upright"),
    "data": Look(colour="#E69F00", ink=_BLACK, pattern="rising"),
    "pipeline": Look(colour="#009E73", ink=_WHITE, pattern="dots"),
}

ALL_LOOKS = LOOKS | SLOTS | STRETCHES | PLANNED | SPENT

# From the bottom of a stack: what stays, then what comes and goes. Model states lie together, so that the formula's
# line meets their top.
STACKED = ("parameters", "optimizer_states", "gradients", "communication", "activations", "temporary")

# A phase is marked in the text's own colour: how strongly it is mixed in, and how high the mark is.
PHASE_STRENGTH = dict(zip(PHASES, (0.2, 0.45, 0.8), strict=True))
PHASE_HEIGHT = dict(zip(PHASES, (3.0, 6.0, 9.0), strict=True))

FORMULA_DASH = "7 4"

INK = "#1f2328"
"""Of words and signs on a coloured mark, which stay as they are when the page turns dark."""
