"""Checks the schemas themselves: ``python tools/schemas.py`` says which are no JSON Schema, or have no version.

What the files that follow a schema hold is checked by the room that reads them.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from jsonschema import SchemaError, validators

ROOT = Path(__file__).resolve().parent.parent


def complaints(root: Path) -> Iterator[str]:
    """One sentence for each schema of ours that is wrong."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.schema.json"],
        cwd=root,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    for name in listed.stdout.split():
        try:
            schema = json.loads((root / name).read_text(encoding="utf-8"))
            validators.validator_for(schema).check_schema(schema)
        except (ValueError, SchemaError) as error:
            yield f"{name}: {error}"
            continue
        if "$schema" not in schema or "$id" not in schema:
            yield f"{name}: has no $schema or no $id"


def main() -> int:
    found = list(complaints(ROOT))
    for each in found:
        print(each)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
