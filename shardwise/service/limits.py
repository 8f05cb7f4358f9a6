"""How often an address or an account may ask: counters that every worker shares, and that outlive a restart.

One row a counter, by the generic cell rate algorithm: `free_at` is when the counter would be empty again. A request is
let through exactly when it would not fill the counter above its rule's `times`; asking and counting are one statement,
so that two workers never let through more than one. Names are kept as keyed hashes: no address and no account stands in
the table.
"""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Engine, create_engine, event, inspect, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import IntegrityError, ProgrammingError

SWEEP_SECONDS = 600


@dataclass(frozen=True, kw_only=True)
class Rule:
    """At most `times` in any `seconds`, at once or spread; the name keeps counters of different rules apart."""

    name: str
    times: int
    seconds: float


class Limits:
    """Counters in a database: a file beside the service's own, or the PostgreSQL server that several machines share."""

    def __init__(self, url: str, *, secret: bytes, clock: Callable[[], float] = time.time) -> None:
        self._engine = _engine(url)
        self._key = hmac.digest(secret, b"shardwise rate limits", "sha256")
        self._clock = clock
        self._swept = 0.0

    def take(self, rule: Rule, who: str) -> float:
        """Counts one request: 0 where it may go on, else after how many seconds the next one may."""
        now = self._clock()
        name = hmac.new(self._key, f"{rule.name}\n{who}".encode(), hashlib.sha256).hexdigest()[:40]
        step = rule.seconds / rule.times
        values = {"name": name, "now": now, "step": step, "window": rule.seconds}
        with self._engine.connect() as connection:
            passed = connection.execute(_TAKE, values).first() is not None
            found = None if passed else connection.execute(_LOOK, values).scalar()
        if passed:
            self._sweep(now)
            return 0.0
        return max(0.001, float(found or now) + step - rule.seconds - now)

    def _sweep(self, now: float) -> None:
        """Forgets counters that are empty, now and then."""
        if now - self._swept < SWEEP_SECONDS:
            return
        self._swept = now
        with self._engine.connect() as connection:
            connection.execute(_FORGET, {"now": now})

    def close(self) -> None:
        self._engine.dispose()


_TAKE = text(
    "INSERT INTO service_rates (name, free_at) VALUES (:name, :now + :step) "
    "ON CONFLICT (name) DO UPDATE SET free_at = "
    "CASE WHEN service_rates.free_at > :now THEN service_rates.free_at ELSE :now END + :step "
    "WHERE service_rates.free_at + :step - :now <= :window + 0.000001 RETURNING free_at"
)
_LOOK = text("SELECT free_at FROM service_rates WHERE name = :name")
_FORGET = text("DELETE FROM service_rates WHERE free_at < :now")
_MAKE = (
    "CREATE {kind}TABLE IF NOT EXISTS service_rates (name VARCHAR(40) PRIMARY KEY, free_at DOUBLE PRECISION NOT NULL)"
)


def _engine(url: str) -> Engine:
    """Each statement is a transaction. Losing counters in a power cut costs nothing, so nothing waits for the disk."""
    kind = ""
    if make_url(url).get_backend_name() == "sqlite":
        if path := make_url(url).database:
            Path(path).touch(mode=0o600)
        engine = create_engine(url, connect_args={"timeout": 5}, isolation_level="AUTOCOMMIT")

        @event.listens_for(engine, "connect")
        def _prepare(connection: object, _record: object) -> None:
            cursor = connection.cursor()  # type: ignore[attr-defined]
            cursor.execute("PRAGMA journal_mode = WAL")
            cursor.execute("PRAGMA synchronous = OFF")
            cursor.close()

    else:
        engine, kind = create_engine(url, pool_pre_ping=True, isolation_level="AUTOCOMMIT"), "UNLOGGED "
    try:
        with engine.connect() as connection:
            connection.execute(text(_MAKE.format(kind=kind)))
    except (IntegrityError, ProgrammingError):
        if not inspect(engine).has_table("service_rates"):  # else another worker made it in this moment
            raise
    return engine
