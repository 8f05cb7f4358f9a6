"""Writes ``shardwise/start.json``: ``python tools/start_words.py``; ``--check`` only says whether it is out of step.

``start.py`` speaks before anything is installed, when no catalog can be read. Its messages are those of
``shardwise/messages.yaml`` whose ids start with ``start-``, translated in the ordinary catalogs; this file is their
extract in every language.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from translations import catalogs, languages, wording

PATH = wording.ROOT / "shardwise" / "start.json"


def extract() -> str:
    """The file's text."""
    english = {id: each for id, each in wording.messages(PATH.parent).items() if id.startswith("start-")}
    words = {}
    for language in languages():
        if not language.folder.is_relative_to(wording.ROOT):
            continue
        catalog = catalogs.catalog(language, PATH.parent.name)
        messages = {id: catalog.get(id, each) for id, each in english.items() if isinstance(each, str)}
        words[language.code] = {
            "direction": language.direction,
            "released": language.released,
            "messages": messages,
        }
    return json.dumps(words, ensure_ascii=False, indent=1) + "\n"


def main(arguments: list[str], path: Path = PATH) -> int:
    text = extract()
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return 0
    if "--check" in arguments:
        print(f"{path.relative_to(wording.ROOT)} is out of step with the catalogs: run python tools/start_words.py")
        return 1
    path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
