"""One source, a notebook in every language."""

from __future__ import annotations

import ast
import json
import re
import shutil
from pathlib import Path
from typing import Any

import nbformat
import pytest

from lessons import builder
from tests.translations.pseudo import COURSE, speak
from translations import Language, formats, language
from translations.source import SourceError

SOURCE = COURSE / "lessons" / "source" / "00-tiny.md"


@pytest.fixture
def course(tmp_path: Path) -> Path:
    return Path(shutil.copytree(COURSE, tmp_path / "course"))


@pytest.fixture
def spoken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Language:
    monkeypatch.setenv("SHARDWISE_LANGUAGES_PATH", str(tmp_path / "languages"))
    return speak(tmp_path / "languages", COURSE)


def built(of: Language | str, root: Path = COURSE) -> Any:
    source = root / "lessons" / "source" / "00-tiny.md"
    return json.loads(builder.render(source, language(of), root=root))


def texts(notebook: Any) -> list[str]:
    return ["".join(cell["source"]) for cell in notebook["cells"]]


def code(notebook: Any) -> list[str]:
    """What the kernel runs, without comments, docstrings and messages."""
    programs = []
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            tree = ast.parse(re.sub(r"^%.*$", "pass", "".join(cell["source"]), flags=re.MULTILINE))
            for node in ast.walk(tree):
                if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                    node.value.value = ""
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "_":
                    node.args = []
            programs.append(ast.unparse(tree))
    return programs


@pytest.mark.parametrize("code", ["en", "nl", "ar"])
def test_a_built_lesson_is_a_valid_notebook_without_outputs(code: str) -> None:
    notebook = built(code)
    nbformat.validate(nbformat.from_dict(notebook))  # type: ignore[no-untyped-call]
    assert notebook["metadata"]["kernelspec"]["name"] == "shardwise"
    course = notebook["metadata"]["course"]
    assert (course["lang"], course["dir"], course["unit"]) == (code, language(code).direction, "00-tiny")
    assert all(cell["outputs"] == [] for cell in notebook["cells"] if cell["cell_type"] == "code")


def test_cells_have_the_same_ids_in_every_language_wherever_they_stand(course: Path) -> None:
    ids = [cell["id"] for cell in built("en")["cells"]]
    assert ids == [cell["id"] for cell in built("ar")["cells"]]
    assert ids[0] == "title"
    assert {"lab", "exercise-tiny-stub", "exercise-tiny-solution"} < set(ids)
    source = course / "lessons" / "source" / "00-tiny.md"
    text = source.read_text(encoding="utf-8")
    source.write_text(text.replace("## What each", "A new cell\n\n+++\n\n## What each"), encoding="utf-8")
    after = [cell["id"] for cell in built("en", course)["cells"]]
    assert len(after) == len(ids) + 1
    assert set(ids) < set(after)


def test_the_code_is_the_same_but_for_words_and_the_language(spoken: Language) -> None:
    english, foreign = built("en"), built(spoken)
    assert [each.replace("'xx'", "'en'") for each in code(foreign)] == code(english)
    assert "language='xx'" in code(foreign)[0]
    assert not any("untranslated" in cell["metadata"].get("tags", ()) for cell in foreign["cells"])
    assert not any("untranslated" in cell["metadata"].get("tags", ()) for cell in english["cells"])
    said = texts(foreign)
    assert 'print(_("Thèrè àrè {n} pàrtš \\"hèrè\\". ~")' not in said
    assert any('.format(n=len(parts)), "untouched words")' in each for each in said)
    assert all("~" in each for each in said if "## " in each or "def cut" in each)


def test_an_exercise_stands_in_its_cell_with_its_magic() -> None:
    said = dict(zip((cell["id"] for cell in built("en")["cells"]), texts(built("en")), strict=True))
    stub = (COURSE / "labs" / "exercises" / "tiny" / "stub.py").read_text(encoding="utf-8")
    assert said["exercise-tiny-stub"] == f"%%exercise tiny\n{stub.strip()}"
    assert not said["exercise-tiny-solution"].startswith("%%")


def test_a_cell_without_translation_is_english_and_tagged(spoken: Language, course: Path) -> None:
    source = course / "lessons" / "source" / "00-tiny.md"
    text = source.read_text(encoding="utf-8")
    source.write_text(text.replace("A quoted remark", "Another remark"), encoding="utf-8")
    cells = built(spoken, course)["cells"]
    tagged = [cell for cell in cells if "untranslated" in cell["metadata"].get("tags", ())]
    assert ["Another remark" in "".join(cell["source"]) for cell in tagged] == [True]


def test_right_to_left_is_put_around_prose_and_not_around_code() -> None:
    opened = '<div dir="rtl" lang="ar">\n\n'
    for cell in built("ar")["cells"]:
        text = "".join(cell["source"])
        if cell["cell_type"] == "code":
            assert "<div" not in text
            assert formats.ISOLATE not in text
            continue
        depth = 0
        for line in text.split("\n"):
            depth += line.startswith("<div") - line.startswith("</div")
            assert depth in (0, 1)
            if line.startswith("```"):
                assert depth == 0
        assert depth == 0
        assert text.startswith((opened, '<div dir="ltr"'))
        assert text.count("\n\n</div>") == text.count("<div")
        assert re.search(r"(?<!\u2066)\|:-", text) or builder.LEFT_TO_RIGHT not in text
    tables = next(text for text in texts(built("ar")) if "|:-" in text)
    ranks, names = tables.index("rank 0"), tables.index("Meaning")
    assert tables.rindex("<div", 0, ranks) == tables.index('<div dir="ltr"')
    assert tables.rindex("<div", 0, names) == tables.index('<div dir="rtl"')


def test_every_language_is_built_and_kept_in_step(course: Path) -> None:
    first = builder.build(root=course)
    assert [path.parent.name for path in first.changed] == [each.code for each in builder.released()]
    assert builder.build(root=course).changed == ()
    assert list(builder.check(root=course)) == []
    first.changed[0].write_text("{}", encoding="utf-8")
    assert list(builder.check(root=course)) == ["lessons/en/00-tiny.ipynb: out of step; run: python -m lessons build"]


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("## What each", "# What each", "16: the title comes from the frontmatter; begin headings at ##"),
        (
            'course.open("00-tiny"',
            'course.open("00-other"',
            '10: the first code cell calls course.open("00-tiny", language="en")',
        ),
        ("parts = [1, 2, 3]", "parts = [1, 2, 3", "71: '[' was never closed"),
    ],
)
def test_what_an_author_must_mend_is_told_by_line(course: Path, old: str, new: str, fault: str) -> None:
    source = course / "lessons" / "source" / "00-tiny.md"
    source.write_text(source.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
    builder.build(root=course)
    assert list(builder.check(root=course)) == [f"lessons/source/00-tiny.md:{fault}"]


def test_a_missing_exercise_is_told_by_line_and_other_lessons_are_built(course: Path) -> None:
    source = course / "lessons" / "source" / "00-tiny.md"
    text = source.read_text(encoding="utf-8")
    (source.parent / "01-other.md").write_text(text.replace("00-tiny", "01-other"), encoding="utf-8")
    source.write_text(text.replace("exercise tiny stub", "exercise huge stub"), encoding="utf-8")
    result = builder.build(root=course)
    assert {path.name for path in result.changed} == {"01-other.ipynb"}
    assert len(result.faults) == 1
    with pytest.raises(SourceError, match=r"00-tiny.md:82: exercise huge has no stub.py"):
        builder.render(source, language("en"), root=course)


def test_the_real_lessons_build_in_seconds_and_are_in_step() -> None:
    assert list(builder.check()) == []
    units = [lesson.unit for lesson in builder.lessons("ar")]
    assert units == [path.stem for path in builder.sources() if path.stem != "home"]
