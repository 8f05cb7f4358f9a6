"""What is to be run, as it travels from the process that asks to the one that leads the ranks and to each rank."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path

from labs.runner.processes import loopback


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One run. ``name`` is what tracebacks call the script; ``timeout`` bounds the run, ``patience`` one wait in it."""

    script: str
    name: str
    arguments: list[str]
    ranks: int
    folder: str
    temporary: bool
    cwd: str
    timeout: float
    patience: float
    environment: dict[str, str]

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @staticmethod
    def from_json(text: str) -> Plan:
        return Plan(**json.loads(text))

    @property
    def path(self) -> Path:
        return Path(self.folder)

    def rank_environment(self, rank: int, port: int) -> dict[str, str]:
        """The environment of one rank: the asking process's, with what torchrun sets."""
        return self.environment | {
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "GROUP_RANK": "0",
            "ROLE_RANK": str(rank),
            "ROLE_NAME": "default",
            "WORLD_SIZE": str(self.ranks),
            "LOCAL_WORLD_SIZE": str(self.ranks),
            "GROUP_WORLD_SIZE": "1",
            "ROLE_WORLD_SIZE": str(self.ranks),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
            "TORCHELASTIC_RUN_ID": self.path.name,
            "TORCHELASTIC_RESTART_COUNT": "0",
            "TORCHELASTIC_MAX_RESTARTS": "0",
            "TORCHELASTIC_USE_AGENT_STORE": "True",
            "OMP_NUM_THREADS": "1",
            "GLOO_SOCKET_IFNAME": loopback(),
            "SHARDWISE_RUN": self.folder,
            "SHARDWISE_TIMEOUT": str(self.patience + 2),
        }
