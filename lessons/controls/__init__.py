"""Controls of the lessons: sizes to move, and a picture that follows at once, drawn in the page itself."""

from lessons.controls.memory import MemoryControl

__all__ = ["MemoryControl"]
