"""A figure as a PNG has the letters of every language that brings a font along."""

from __future__ import annotations

from labs.telemetry.drawing.raster import png

ALPHABET = "აბგდევზთიკლმნოპჟრსტუფქღყშჩცძწჭხჯჰ"


def test_each_letter_has_a_drawing_of_its_own() -> None:
    """A letter that no font has is an empty box, the same for all."""
    figure = (
        '<svg xmlns="http://www.w3.org/2000/svg" width="40" height="40" lang="ka"><text x="8" y="28" '
        'font-family="sans-serif" font-size="20">{letter}</text></svg>'
    )
    looks = {png(figure.format(letter=each)) for each in ALPHABET}
    assert len(looks) == len(ALPHABET)
