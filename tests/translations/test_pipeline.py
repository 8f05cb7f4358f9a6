"""From a changed English text to what the check says and the reader sees."""

from __future__ import annotations

import shutil
import time
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from tests.translations.pseudo import COURSE, FIXTURES, speak
from translations import __main__ as command
from translations import checks, pipeline
from translations.available import Language, language
from translations.catalogs import catalog

LESSON = "lessons/source/00-tiny.md"


@pytest.fixture
def course(tmp_path: Path) -> Path:
    """A course of one lesson that a test may change."""
    return Path(shutil.copytree(COURSE, tmp_path / "course"))


@pytest.fixture
def spoken(tmp_path: Path, course: Path, monkeypatch: pytest.MonkeyPatch) -> Language:
    """An unreleased language that speaks all of it."""
    monkeypatch.setenv("SHARDWISE_LANGUAGES_PATH", str(tmp_path / "languages"))
    return speak(tmp_path / "languages", course)


def findings(course: Path, spoken: Language) -> list[str]:
    return [str(finding) for finding in checks.check(pipeline.extract(course), spoken)]


def change(course: Path, old: str, new: str) -> None:
    path = course / LESSON
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1
    path.write_text(text.replace(old, new), encoding="utf-8")


def content(spoken: Language) -> dict[str, str]:
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(spoken.folder.glob("*.po"))}


def test_a_new_language_is_complete_without_any_code(course: Path, spoken: Language) -> None:
    assert findings(course, spoken) == []
    assert pipeline.todo(pipeline.extract(course), spoken) == []


def test_update_says_the_same_twice_and_dates_nothing(course: Path, spoken: Language) -> None:
    before = content(spoken)
    assert pipeline.update(pipeline.extract(course), spoken) == []
    shutil.rmtree(spoken.folder)
    shutil.copytree(FIXTURES / "languages" / "xx", spoken.folder)
    pipeline.update(pipeline.extract(course), replace(spoken, released=True))
    assert set(content(spoken)) == set(before)
    assert not any("Date" in text for text in before.values())


def test_a_changed_text_is_stale_and_keeps_its_old_translation(course: Path, spoken: Language) -> None:
    change(course, "A quoted remark", "A quoted and longer remark")
    sentence = (
        f"xx: {LESSON}:31: STALE: was 'A quoted remark of two lines.' now 'A quoted and longer remark of two lines.'"
    )
    assert sentence in findings(course, spoken)
    pipeline.update(pipeline.extract(course), spoken)
    assert findings(course, spoken) == [sentence]
    (task,) = pipeline.todo(pipeline.extract(course), spoken)
    assert task["en_was"] == "A quoted remark of two lines."
    assert task["was"].endswith("~")
    context = task["at"].partition("/")[2]
    assert catalog(spoken, "lesson-00-tiny").get(context, task["en"]) == task["en"]
    change(course, "A quoted and longer remark", "A quoted remark")
    pipeline.update(pipeline.extract(course), spoken)
    assert findings(course, spoken) == []


def test_a_moved_text_keeps_its_translation(course: Path, spoken: Language) -> None:
    change(course, "> A quoted remark\n> of two lines.\n", "")
    change(course, "## What each rank holds\n", "## What each rank holds\n\n> A quoted remark\n> of two lines.\n")
    change(course, "- `code_only`", "- `code_only` is new")
    pipeline.update(pipeline.extract(course), spoken)
    assert findings(course, spoken) == [f"xx: {LESSON}:29: MISSING: '`code_only` is new'"]


def test_what_a_translator_fills_in_is_written_back(course: Path, spoken: Language, tmp_path: Path) -> None:
    change(course, "- `code_only`", "- `code_only` is new")
    tasks = pipeline.todo(pipeline.extract(course), spoken)
    assert [task["en"] for task in tasks] == ["`code_only` is new"]
    tasks[0]["to"] = "ñéw `code_only`"
    (tmp_path / "todo.yaml").write_text(pipeline.as_yaml(tasks), encoding="utf-8")
    arguments = ["fill", "--language", "xx", "--root", str(course), str(tmp_path / "todo.yaml")]
    assert command.main(arguments) == 0
    assert findings(course, spoken) == []
    change(course, "is new", "is newer")
    assert command.main(arguments) == 1


@pytest.mark.parametrize(
    ("english", "translated", "kind"),
    [
        ("Call `f` once.", "Roep `g` eenmaal aan.", "MARKS"),
        ("It is $x$.", "Het is x.", "MARKS"),
        ("See [it](http://a).", "Zie [het](http://b).", "MARKS"),
        ("{n} ranks", "{m} ranks", "MARKS"),
        ("Use 4.", "Neem ٤.", "DIGITS"),
        ("The optimizer.", "De optimalisator.", "GLOSSARY"),
    ],
)
def test_a_wrong_translation_is_found(english: str, translated: str, kind: str) -> None:
    assert kind in {kind for kind, _ in checks.problems(english, translated, language("nl"))}
    assert not list(checks.problems(english, english.replace("optimizer", "x"), language("nl")))


def test_an_avoided_word_may_be_allowed_with_a_reason() -> None:
    assert not list(checks.problems("x", "De optimalisator.", language("nl"), allowed=["optimalisator"]))


def test_an_avoided_arabic_word_is_found_with_and_without_vowels() -> None:
    kinds = [kind for kind, _ in checks.problems("checkpoint", "نُقطة تفتيش", language("ar"))]
    assert "GLOSSARY" in kinds


def test_a_term_without_its_english_at_first_use_is_a_warning(course: Path, tmp_path: Path) -> None:
    extracted = pipeline.extract(course)
    folder = tmp_path / "ar"
    folder.mkdir()
    arabic = language("ar")
    other = Language(
        code="ar", name="", direction="rtl", released=True, locale="ar", plural=arabic.plural, folder=folder
    )
    tasks = pipeline.todo(extracted, other, "lesson-00-tiny")
    heading = next(task for task in tasks if task["en"] == "What each rank holds")
    heading["to"] = "ما تحفظه كل رتبة"
    pipeline.fill(extracted, other, [heading])
    warned = [finding for finding in checks.check(extracted, other) if finding.kind == "FIRST USE"]
    assert [finding.place for finding in warned] == [f"{LESSON}:16"]
    heading["to"] = "ما تحفظه كل رتبة (rank)"
    pipeline.fill(extracted, other, [heading])
    assert not [finding for finding in checks.check(extracted, other) if finding.kind == "FIRST USE"]


@pytest.mark.parametrize(
    ("english", "translated", "code", "missed"),
    [
        ("Each shard holds gradients.", "Elke shard bevat gradiënten.", "nl", []),
        (
            "Each shard holds gradients.",
            "Elk stuk bevat hellingen.",
            "nl",
            ["gradient", "shard (noun)", "shard (verb)"],
        ),
        ("The optimizer states.", "حالات المُحسِّن.", "ar", []),
        ("The optimizer states.", "أوضاع الخوارزمية.", "ar", ["optimizer state"]),
        ("Call `shard`.", "Roep `shard` aan.", "nl", []),
    ],
)
def test_a_term_is_recognised_in_its_forms(english: str, translated: str, code: str, missed: list[str]) -> None:
    assert [term["en"] for term in checks.unrecognised(english, translated, language(code))] == missed


def test_a_text_that_another_catalog_translates_is_taken_over(course: Path, spoken: Language) -> None:
    exercise = course / "labs" / "exercises" / "other"
    shutil.copytree(course / "labs" / "exercises" / "tiny", exercise)
    pipeline.update(pipeline.extract(course), replace(spoken, released=True))
    assert findings(course, spoken) == []
    assert (spoken.folder / "exercise-other.po").exists()


def test_a_sentence_left_in_english_is_a_warning(course: Path, spoken: Language) -> None:
    change(course, "- `code_only`", "- This was added just now")
    (task,) = pipeline.todo(pipeline.extract(course), spoken)
    task["to"] = task["en"]
    pipeline.fill(pipeline.extract(course), spoken, [task])
    (finding,) = checks.check(pipeline.extract(course), spoken)
    assert (finding.kind, finding.warning) == ("SAME", True)


def test_a_broken_source_is_reported_and_harms_nothing(course: Path, spoken: Language) -> None:
    before = content(spoken)
    (course / "quiz").mkdir()
    (course / "quiz" / "messages.yaml").write_text("good: Some words\nbad: [1, 2]\n", encoding="utf-8")
    change(course, "minutes: 5", "minutes: five")
    extracted = pipeline.extract(course)
    assert [sentence.partition(": ")[0] for sentence in extracted.broken] == ["quiz/messages.yaml:2", f"{LESSON}:2"]
    assert pipeline.update(extracted, spoken) == []
    assert content(spoken) == before


def test_plural_forms_are_asked_for_one_by_one(course: Path, spoken: Language) -> None:
    (course / "quiz").mkdir()
    forms = {"one": "{count} rank", "other": "{count} ranks"}
    (course / "quiz" / "messages.yaml").write_text(yaml.safe_dump({"ranks": forms}), encoding="utf-8")
    extracted = pipeline.extract(course)
    task = next(task for task in pipeline.todo(extracted, language("ar")) if task["at"] == "quiz/ranks")
    assert (len(task["to"]), task["counts"][2]) == (6, "2")
    mine = next(task for task in pipeline.todo(extracted, spoken) if task["at"] == "quiz/ranks")
    mine["to"] = ["ôñé râñk", "{count} râñks"]
    pipeline.fill(extracted, spoken, [mine])
    assert [catalog(spoken, "quiz").get_plural("ranks", forms, count=n) for n in (1, 2)] == mine["to"]
    assert findings(course, spoken) == []


def test_the_real_course_is_read_in_seconds() -> None:
    began = time.monotonic()
    extracted = pipeline.extract()
    for each in pipeline.targets():
        list(checks.check(extracted, each))
    assert time.monotonic() - began < 20
    assert "code" in extracted.catalogs
