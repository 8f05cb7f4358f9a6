"""A worker of grading: a process that takes orders, one a line, grades, writes the result and says that it did.

It ends when its input ends, in the middle of a submission too: then its grader is gone, and nobody waits for what it
would still write. It holds no state between two submissions but what it has imported.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
from typing import Any


def main() -> None:
    """Until the input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever a library prints is no answer
    orders: queue.Queue[dict[str, Any]] = queue.Queue()
    threading.Thread(target=_listen, args=(orders,), daemon=True).start()
    while True:
        order = orders.get()
        answers.write(json.dumps(_graded(order)) + "\n")
        answers.flush()


def _listen(orders: queue.Queue[dict[str, Any]]) -> None:
    for line in sys.stdin:
        orders.put(json.loads(line))
    os._exit(0)


def _graded(order: dict[str, Any]) -> dict[str, Any]:
    from shardwise.classroom import batch

    try:
        result = batch.graded(batch.Job.from_json(order["job"]), sandboxed=order["sandboxed"])
    except Exception as error:  # the batch goes on, and this student gets a reason
        return {"failed": f"{type(error).__name__}: {error}"[:500], "refused": _refusal(error)}
    return {"state": result.state, "points": result.points, "of": result.of}


def _refusal(error: Exception) -> dict[str, Any] | None:
    """An error that no other submission would escape: no sandbox can be made on this machine."""
    from translations import CourseError

    if isinstance(error, CourseError) and error.id.startswith("shardwise.sandbox-"):
        return {"id": error.id, "values": {key: str(each) for key, each in error.values.items()}}
    return None


if __name__ == "__main__":
    main()
