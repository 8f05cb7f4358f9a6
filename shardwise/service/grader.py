"""The process in which handed-in code is graded: `python -m shardwise.service.grader`. It reads orders, a line of JSON
each, and answers so.

It is a process of its own, so that what grading needs (torch) and what it may break is not the server's. When the
server is gone its orders end, and it leaves at once, the sandbox with it: nothing goes on grading for nobody.
"""

from __future__ import annotations

import base64
import json
import os
import queue
import sys
import threading
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any


def main() -> None:
    orders: queue.Queue[str] = queue.Queue()

    def listen() -> None:
        for line in sys.stdin:
            orders.put(line)
        os._exit(0)

    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever a library prints is no answer
    threading.Thread(target=listen, daemon=True).start()
    while True:
        order = json.loads(orders.get())
        answers.write(json.dumps(graded(order), ensure_ascii=False) + "\n")
        answers.flush()


def graded(order: dict[str, Any]) -> dict[str, Any]:
    """The result of one order, or the error that kept it from having one."""
    from shardwise.classroom.grading import grade_one
    from translations import CourseError, language

    with TemporaryDirectory(prefix="shardwise-exam-") as folder:
        file = Path(folder) / "submission.py"
        file.write_bytes(base64.b64decode(order["source"]))
        try:
            found = grade_one(
                file, exercise_id=order["exercise"], language=language(order["language"]), seed=order["seed"]
            )
        except CourseError as error:
            return {"id": order["id"], "error": error.id, "said": str(error)}
    return {"id": order["id"], "result": found.as_json()}


if __name__ == "__main__":
    main()
