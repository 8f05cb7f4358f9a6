"""The issuer in whose name this service issues, and the signer behind which its key stays."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from certificates.issuer import Issuer
    from certificates.signing import Signer


@dataclass(frozen=True, kw_only=True)
class Issuing:
    """`folder`: what `shardwise issuer init` made; None in tests that make an issuer themselves."""

    issuer: Issuer
    signer: Signer = field(repr=False)
    folder: Path | None = None
