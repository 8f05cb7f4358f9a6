"""Every lesson of every language runs from top to bottom, as a learner finds it, and says what it must in that
language.
"""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from translations import Language, languages

FOLDER = Path(__file__).parent.parent.parent / "lessons"
NOTEBOOKS = [(language, path) for language in languages() for path in sorted((FOLDER / language.code).glob("*.ipynb"))]


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("language", "path"), NOTEBOOKS, ids=[f"{language.code}-{path.stem}" for language, path in NOTEBOOKS]
)
def test_every_lesson_runs(language: Language, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHARDWISE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SHARDWISE_DATA", str(tmp_path / "data"))
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook, kernel_name="shardwise", timeout=120, resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute()

    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    pages = [str(output["data"]["text/html"]) for output in outputs if "text/html" in output.get("data", {})]
    drawings = [page for page in pages if "<svg" in page]
    for page in drawings:
        assert re.search(r'role="img" aria-label="[^"]{20,}"', page), "a figure without alternative text"
        assert f'dir="{language.direction}"' in page
    if path.stem != "home":
        assert len(drawings) >= 4
    assert not [cell.id for cell in notebook.cells if "untranslated" in cell.metadata.get("tags", [])]
