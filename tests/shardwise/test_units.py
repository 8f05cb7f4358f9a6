"""A unit has one name: the map, the certificate and the lesson itself give the same title, in every language."""

from __future__ import annotations

import pytest

from lessons.builder import lessons
from shardwise.units import units
from translations import language, languages, translator

DIRECTION_MARKS = dict.fromkeys((0x2066, 0x2067, 0x2068, 0x2069))
"""What the builder puts around a Latin word in an Arabic heading."""


@pytest.mark.parametrize("code", [each.code for each in languages()])
def test_a_unit_is_called_as_its_lesson_is(code: str) -> None:
    titles = {lesson.unit: lesson.title for lesson in lessons(language(code))}
    built = [unit for unit in units() if unit.open(language(code))]
    assert built
    for unit in built:
        assert unit.title(translator(code)) == titles[unit.id].translate(DIRECTION_MARKS)
