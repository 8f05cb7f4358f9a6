"""Languages, messages and the errors that learners see."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from translations import CourseError, Phrase, formats, language, languages, preferred, translator, wording
from translations.catalogs import Catalog, Entry


def test_the_source_comes_first_and_every_language_says_its_direction() -> None:
    assert languages()[0].code == "en"
    assert {each.direction for each in languages()} == {"ltr", "rtl"}
    assert all(each.plurals > each.plural_form(count) for each in languages() for count in range(200))


def test_another_folder_of_languages_is_found_by_its_path(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "xx" not in {each.code for each in languages()}
    monkeypatch.setenv("SHARDWISE_LANGUAGES_PATH", str(Path(__file__).parent.parent / "fixtures" / "languages"))
    assert language("xx").name == "Pseudo"
    assert not language("xx").released


@pytest.mark.parametrize(
    ("explicit", "environ", "chosen"),
    [
        ("ar", {"SHARDWISE_LANG": "nl"}, "ar"),
        (None, {"SHARDWISE_LANG": "nl", "LANG": "ar_EG.UTF-8"}, "nl"),
        (None, {"LC_ALL": "ar_EG.UTF-8", "LANG": "nl_NL.UTF-8"}, "ar"),
        (None, {"LANGUAGE": "fr:nl_BE"}, "nl"),
        (None, {"LANG": "C.UTF-8"}, "en"),
        (None, {}, "en"),
    ],
)
def test_the_learners_language_is_chosen_in_order(explicit: str | None, environ: dict[str, str], chosen: str) -> None:
    assert preferred(explicit, environ).code == chosen


def test_an_unknown_language_names_those_there_are() -> None:
    with pytest.raises(CourseError, match=r"no course language qq.*en, ar, nl"):
        preferred(None, {"SHARDWISE_LANG": "qq"})


def test_an_error_keeps_its_values_on_the_way_between_processes() -> None:
    error = pickle.loads(pickle.dumps(CourseError("translations.unknown-language", code="qq", known="en")))
    assert (error.id, error.values["code"]) == ("translations.unknown-language", "qq")
    assert str(error) == "There is no course language qq. You can choose: en."
    assert error.in_language(translator("nl")) != str(error)


def test_an_unknown_message_or_placeholder_is_the_authors_error() -> None:
    with pytest.raises(KeyError):
        translator("en")("translations.no-such-message")
    with pytest.raises(KeyError):
        translator("nl")("translations.unknown-language", code="qq")


def test_a_placeholder_can_not_reach_into_an_object() -> None:
    with pytest.raises(KeyError):
        wording.fill("{x.__class__}", {"x": 1})


def test_a_translation_of_another_english_text_is_not_shown() -> None:
    entries = {
        "same": Entry("One.", "", "Eén.", {}, False),
        "changed": Entry("Old.", "", "Oud.", {}, False),
        "stale": Entry("New.", "", "Oud.", {}, True),
        "many": Entry("{count} rank", "{count} ranks", "", {0: "{count} rank", 1: "{count} ranks!"}, False),
    }
    catalog = Catalog(language("nl"), "none", entries)
    assert catalog.get("same", "One.\n") == "Eén."
    assert catalog.get("changed", "New.") == "New."
    assert catalog.get("stale", "New.") == "New."
    assert catalog.get("absent", "New.") == "New."
    many = {"one": "{count} rank", "other": "{count} ranks"}
    assert [catalog.get_plural("many", many, count=n) for n in (1, 2)] == ["{count} rank", "{count} ranks!"]


def test_a_phrase_of_a_lesson_keeps_its_values_in_their_direction() -> None:
    assert Phrase("{n:.1f} of {b}", "nl").format(n=1, b="4 GB") == "1.0 of 4 GB"
    said = Phrase("على {0} تبقى {n} من {b}", "ar").format("ZeRO-1", n=4, b="4 GB")
    assert said == f"على {formats.isolate('ZeRO-1')} تبقى 4 من {formats.isolate('4 GB')}"
    assert Phrase("تبقى {n:.1f}", "ar").format(n=-1) == f"تبقى {formats.isolate('-1.0')}"


def test_importing_is_cheap() -> None:
    heavy = "'torch', 'babel', 'nbformat', 'markdown_it'"
    code = f"import sys, translations; print([name for name in ({heavy}) if name in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout.strip() == "[]"


def test_arabic_messages_keep_latin_values_whole() -> None:
    text = translator("ar")("translations.unknown-language", code="qq", known="en, ar")
    assert formats.isolate("qq") in text
    assert formats.isolate("en, ar") in text
