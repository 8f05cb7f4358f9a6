"""Importing this makes the process end when the one that started it is gone (Linux). For a fork server of Python's own,
which imports what it is told, one module after the other, before it looks at anything else.
"""

import os
import sys

from labs.runner import processes

if sys.platform == "linux":
    processes.die_with(os.getppid(), lifeline=-1)
