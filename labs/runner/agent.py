"""torchrun with ranks that are copies of a warm process. `COMMAND` starts it, with what torchrun takes behind.

The agent is torchrun's own, and so are its rendezvous and its restarts. Only the way to a rank is short: instead of a
new interpreter, which imports torch for seconds, a copy of one that has. The agent gets ready, waits for a line on its
standard input, and joins the run. When whoever started it is gone, it ends, and its ranks with it (Linux).
"""

from __future__ import annotations

import os
import runpy
import sys
from dataclasses import replace
from multiprocessing import forkserver
from pathlib import Path

from torch.distributed import run
from torch.distributed.launcher.api import elastic_launch

from labs.runner import processes
from labs.runner.server import MODULES

COMMAND = (sys.executable, "-P", "-c", "import labs.runner.mortal; from labs.runner.agent import main; main()")
"""Not with -m: each copy would read this module again as its main one. The first import is there before torch is."""


def main() -> None:
    """Raises what torchrun raises where it gives up."""
    arguments = run.parse_args(None)  # type: ignore[no-untyped-call]
    config, _, _ = run.config_from_args(arguments)
    forkserver.set_forkserver_preload(["labs.runner.mortal", *MODULES, "labs.checkpoint", __name__])
    forkserver.ensure_running()
    if not sys.stdin.readline():
        return
    launch = elastic_launch(config=replace(config, start_method="forkserver"), entrypoint=rank)
    launch(arguments.training_script, arguments.training_script_args)


def rank(script: str, words: list[str]) -> None:
    """In a copy, whose environment is a rank's: the script from its first line on."""
    if sys.platform == "linux":
        processes.die_with(os.getppid(), lifeline=-1)
    sys.argv = [script, *words]
    sys.path.insert(0, str(Path(script).parent))
    runpy.run_path(script, run_name="__main__")
