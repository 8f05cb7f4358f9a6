"""What a rank's process does, from the moment it exists to its end."""

from __future__ import annotations

import contextlib
import faulthandler
import io
import os
import resource
import runpy
import signal
import sys
import traceback
from pathlib import Path
from typing import NoReturn

from labs.runner import failure, processes
from labs.runner.plan import Plan

_OWN = ("labs.", "quiz.", "certificates.", "lessons.", "shardwise.")
_HARNESS = ("labs.runner", "labs.runner.")


def main(plan: Plan, rank: int) -> NoReturn:
    """Run the script as rank ``rank``, in an environment that is already the rank's. Never returns."""
    code = 1
    try:
        _prepare(plan, rank)
        code = _run(plan, rank)
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
        with contextlib.suppress(BaseException):
            sys.stderr.flush()
        # torch's threads may abort an interpreter that ends in the ordinary way, after all results are there.
        os._exit(code)


def _prepare(plan: Plan, rank: int) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    for each in (signal.SIGCHLD, signal.SIGTERM, signal.SIGPIPE, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN if each == signal.SIGPIPE else signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115, PTH123
    for name, descriptor in (("stdout", 1), ("stderr", 2)):
        raw = open(descriptor, "wb", buffering=0, closefd=False)  # noqa: SIM115
        buffer = io.BufferedWriter(raw)
        setattr(sys, name, io.TextIOWrapper(buffer, "utf-8", "backslashreplace", line_buffering=True))
    # The stack on request of the watchdog, and of a fault in native code.
    stack = Path(plan.folder, f"rank-{rank}.stack").open("w", encoding="utf-8")  # noqa: SIM115
    faulthandler.enable(stack, all_threads=False)
    faulthandler.register(signal.SIGUSR1, stack, all_threads=False)
    _forget_own_modules()
    os.chdir(plan.cwd)
    sys.argv = [plan.script, *plan.arguments]
    sys.path.insert(0, str(Path(plan.script).parent))


def _forget_own_modules() -> None:
    """The course's modules are read afresh, so that an edited one counts in the next run; but not what runs this."""
    for name in [each for each in sys.modules if each.startswith(_OWN) and not each.startswith(_HARNESS)]:
        package, _, own = name.rpartition(".")
        del sys.modules[name]
        if package in sys.modules:
            vars(sys.modules[package]).pop(own, None)


def _run(plan: Plan, rank: int) -> int:
    from labs.runner import hook
    from labs.runner import rank as api

    heart = api.heart()
    if heart is not None:
        hook.install(heart)
    try:
        runpy.run_path(plan.script, run_name="__main__")
    except SystemExit as end:
        if end.code not in (None, 0):
            if not isinstance(end.code, int):
                print(end.code, file=sys.stderr)
            return end.code & 0xFF if isinstance(end.code, int) else 1
    except BaseException as error:
        failure.write(plan.path, rank, error, script=plan.script, name=plan.name)
        if not failure.lost_a_peer(error):
            print(failure.own_traceback(error, script=plan.script, name=plan.name), file=sys.stderr)
        return 1
    if heart is not None:
        heart.end()
    return 0


def _from_command_line() -> NoReturn:
    """A rank as a plain process: ``python -m labs.runner.child PLAN RANK LEADER LIFELINE``."""
    plan, rank, leader, lifeline = Plan.from_json(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    processes.die_with(leader, lifeline=lifeline)
    main(plan, rank)


if __name__ == "__main__":
    _from_command_line()
