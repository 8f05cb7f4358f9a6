"""The rewards of a policy that learns, drawn while it does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from labs.telemetry.drawing.legend import Words
from labs.telemetry.drawing.rewards import reward_message, rewards_over_steps
from labs.telemetry.drawing.svg import Svg
from labs.telemetry.events import Event
from labs.telemetry.rows import Told
from translations import Language


class Rewards:
    """What each step's samples were worth, as a rank tells it in `rewarded`; the others would tell the same."""

    def __init__(self, ranks: int, language: Language | str) -> None:
        self.words = Words.of(language)
        self.curve: dict[int, Mapping[str, float]] = {}

    def take(self, rank: int, told: Told) -> bool:
        if not isinstance(told, Event) or told.name != "rewarded":
            return False
        self.curve[int(told.values["step"])] = told.values
        return True

    def moves(self) -> bool:
        return False

    def draw(self, now: float) -> Svg:
        return rewards_over_steps([*self.curve.values()], language=self.words.language)

    def status(self, now: float) -> str:
        return self.words.sentence(reward_message([*self.curve.values()], self.words))

    def finished(self, data: Mapping[str, Any] | None) -> Svg:
        curve = [*self.curve.values()] if data is None else data["curve"]
        return rewards_over_steps(curve, language=self.words.language)
