"""What every part of the service is given: settings, store, clock, mail, exams, issuer. Made once by `create_app` or a
command.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from shardwise.record.tables import now
from shardwise.service.exams import Exams
from shardwise.service.mail import Mail
from shardwise.service.settings import Settings
from shardwise.service.signing import Issuing
from shardwise.service.store import Store


@dataclass(frozen=True, kw_only=True)
class Core:
    """`clock` is the only clock: what a browser says of the time is never believed. `issuing` None: exams without
    certificates.
    """

    settings: Settings
    store: Store
    mail: Mail
    exams: Exams
    issuing: Issuing | None = None
    clock: Callable[[], datetime] = field(default=now)

    def close(self) -> None:
        self.mail.close()
        self.store.close()
