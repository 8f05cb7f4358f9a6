"""Controls of the lessons: sizes to move, and a picture that follows at once."""

from lessons.controls.memory import MemoryControl
from lessons.controls.planner import PlannerControl

__all__ = ["MemoryControl", "PlannerControl"]
