"""What memory is counted as, and the values in which it is told. Nothing here knows of torch."""

from __future__ import annotations

from dataclasses import dataclass, fields

PHASES = ("forward", "backward", "optimizer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bytes:
    """Bytes of tensor storages by category; each storage is counted once, in one category."""

    parameters: int = 0
    gradients: int = 0
    optimizer_states: int = 0
    activations: int = 0
    communication: int = 0
    temporary: int = 0

    @property
    def total(self) -> int:
        return sum(self.amounts)

    @property
    def model_states(self) -> int:
        """Parameters, gradients and optimizer states together: what ZeRO shards."""
        return self.parameters + self.gradients + self.optimizer_states

    @property
    def amounts(self) -> tuple[int, ...]:
        """In the order of `CATEGORIES`."""
        return tuple(int(getattr(self, category)) for category in CATEGORIES)

    def as_dict(self) -> dict[str, int]:
        return dict(zip(CATEGORIES, self.amounts, strict=True))


CATEGORIES = tuple(field.name for field in fields(Bytes))


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """How often a collective was called, and the bytes of the unsharded buffers it was called on."""

    count: int = 0
    bytes: int = 0

    def __add__(self, other: Count) -> Count:
        return Count(count=self.count + other.count, bytes=self.bytes + other.bytes)

    def as_dict(self) -> dict[str, int]:
        return {"count": self.count, "bytes": self.bytes}
