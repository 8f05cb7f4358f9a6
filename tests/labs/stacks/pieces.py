"""The labs' GPT without its values."""

from __future__ import annotations

import torch

from labs.model import GPT, Shape
from labs.planner.zero import Piece, pieces_of


def pieces_of_shape(*, layers: int, hidden: int, sequence: int) -> list[Piece]:
    with torch.device("meta"):
        return pieces_of(GPT(Shape(layers=layers, hidden=hidden, sequence=sequence)).pieces)
