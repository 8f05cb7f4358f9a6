"""A language in preparation: what is translated is there, the rest is English, and nobody is asked for it."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import polib
import pytest

from certificates.page import build as page
from lessons import builder
from shardwise import cli, workspace
from shardwise.units import unit
from tests.translations.pseudo import COURSE, speak
from translations import Language, in_preparation, language, languages, pipeline, preferred, released
from translations.__main__ import main
from translations.whole import languages_with, whole

LESSON = "lessons/source/00-tiny.md"


@pytest.fixture
def course(tmp_path: Path) -> Path:
    return Path(shutil.copytree(COURSE, tmp_path / "course"))


@pytest.fixture
def spoken(tmp_path: Path, course: Path, monkeypatch: pytest.MonkeyPatch) -> Language:
    """A language in preparation that speaks all of the course."""
    monkeypatch.setenv("SHARDWISE_LANGUAGES_PATH", str(tmp_path / "languages"))
    return speak(tmp_path / "languages", course)


def change(course: Path, old: str, new: str) -> None:
    path = course / LESSON
    path.write_text(path.read_text(encoding="utf-8").replace(old, new, 1), encoding="utf-8")


@pytest.mark.usefixtures("spoken")
def test_nobody_gets_it_who_did_not_ask() -> None:
    assert {each.code for each in released()} | {each.code for each in in_preparation()} == {
        each.code for each in languages()
    }
    assert preferred(None, {"LANG": "xx_XX.UTF-8"}).code == "en"
    assert preferred("xx", {}).code == "xx"
    assert preferred(None, {"SHARDWISE_LANG": "xx"}).code == "xx"


def test_its_authors_are_not_asked_for_it(course: Path, spoken: Language, capsys: pytest.CaptureFixture[str]) -> None:
    change(course, "A quoted remark", "A quoted and longer remark")
    extracted = pipeline.extract(course)
    assert not [each for each in extracted.catalogs if not (spoken.folder / f"{each}.po").exists()]
    main(["check", "--root", str(course)])
    said = capsys.readouterr().out
    assert "xx: in preparation, " in said
    assert "xx: lessons/" not in said
    assert main(["check", "--root", str(course), "--language", "xx"]) == 0
    assert f"xx: {LESSON}:31: STALE" in capsys.readouterr().out


def test_what_is_translated_must_be_right(course: Path, spoken: Language, capsys: pytest.CaptureFixture[str]) -> None:
    path = spoken.folder / "lesson-00-tiny.po"
    catalog = polib.pofile(str(path))
    marked = next(entry for entry in catalog if "`" in entry.msgid)
    marked.msgstr = marked.msgstr.replace("`", "")
    catalog.save()
    assert main(["check", "--root", str(course)]) == 1
    assert "xx: " in (said := capsys.readouterr().out)
    assert "MARKS" in said


def test_only_what_is_translated_is_written_down(course: Path, spoken: Language) -> None:
    shutil.rmtree(spoken.folder)
    spoken = speak(spoken.folder.parent, course)
    for path in spoken.folder.glob("*.po"):
        path.unlink()
    assert pipeline.update(pipeline.extract(course), spoken) == []
    first, *_ = pipeline.todo(pipeline.extract(course), spoken, "lesson-00-tiny")
    pipeline.fill(pipeline.extract(course), spoken, [{**first, "to": "Said ~"}])
    (path,) = spoken.folder.glob("*.po")
    assert [entry.msgstr for entry in polib.pofile(str(path))] == ["Said ~"]
    assert pipeline.update(pipeline.extract(course), spoken) == []
    assert len(pipeline.update(pipeline.extract(course), replace(spoken, released=True))) > 1


def test_a_lesson_is_built_where_it_is_whole_and_taken_away_where_it_is_not(
    course: Path, spoken: Language, tmp_path: Path
) -> None:
    source, to = course / LESSON, tmp_path / "built"
    assert spoken in builder.written_in(source, root=course)
    builder.build(root=course, to=to)
    built = to / "xx" / "00-tiny.ipynb"
    assert built.exists()
    assert [each for each in builder.check(root=course, to=to) if "xx" in each] == []
    change(course, "A quoted remark", "A quoted and longer remark")
    assert not whole(spoken, {"lesson-00-tiny"}, root=course)
    assert [each for each in builder.check(root=course, to=to) if "/xx/" in each] == [
        "lessons/xx/00-tiny.ipynb: not all translated any more; run: python -m lessons build"
    ]
    assert built in builder.build(root=course, to=to).changed
    assert not built.exists()


def test_its_learners_read_the_other_lessons_in_english(
    spoken: Language, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped = tmp_path / "shipped"
    for code, names in {"en": ("01-a", "home"), "xx": ("home",)}.items():
        for name in names:
            (shipped / code).mkdir(parents=True, exist_ok=True)
            (shipped / code / f"{name}.ipynb").write_text(f'{{"cells": [], "of": "{code}"}}', encoding="utf-8")
    monkeypatch.setenv("SHARDWISE_HOME", str(tmp_path / "mine"))
    made = workspace.prepare(spoken, course=shipped)
    assert {path.stem: "xx" in path.read_text(encoding="utf-8") for path in made.lessons} == {
        "01-a": False,
        "home": True,
    }
    assert unit("1").open(spoken)


@pytest.mark.usefixtures("spoken")
def test_it_is_named_as_what_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["--help", "--lang", "en"]) == 0
    assert "xx (in preparation)" in " ".join(capsys.readouterr().out.replace("│", " ").split())


@pytest.mark.usefixtures("spoken")
def test_the_verification_page_speaks_it_where_it_has_every_word() -> None:
    assert "xx" not in {each.code for each in page._spoken()}
    assert {"en", "nl", "ar"} <= {each.code for each in page._spoken()}


def test_every_lesson_in_preparation_that_is_whole_is_built() -> None:
    for each in in_preparation():
        if not each.folder.is_relative_to(builder.ROOT):
            continue
        there = {path.stem for path in (builder.ROOT / "lessons" / each.code).glob("*.ipynb")}
        assert there == {path.stem for path in builder.sources() if each in builder.written_in(path)}


def test_a_bank_is_checked_in_the_languages_that_have_it_whole() -> None:
    assert languages_with({"bank-no-such"}) == released()
    assert language("en") in languages_with({"bank-01-one-gpu"})
