"""What holds for every lab: its options survive the way to its script, and it speaks every language."""

from __future__ import annotations

from dataclasses import fields

import pytest

from labs.catalogue import LABS, options_of, ranks_of
from labs.options import OPTIONS
from shardwise import cli
from translations import languages, translator


def test_options_and_labs_have_the_same_names() -> None:
    assert set(LABS) == set(OPTIONS)


@pytest.mark.parametrize("name", LABS)
def test_a_labs_script_takes_what_its_dataclass_says(name: str) -> None:
    options = options_of(name, {})
    assert LABS[name].script.is_file()
    assert type(options).parse(options.arguments()) == options
    ranks = ranks_of(name, {}, None)
    assert options.checked(ranks=ranks) == options, "the defaults must run"
    assert options.layout(ranks)


@pytest.mark.parametrize("name", LABS)
def test_a_lab_and_each_of_its_options_has_words_in_every_language(name: str) -> None:
    english = translator("en")
    for language in languages():
        if not language.released or language.code == "en":
            continue
        text = translator(language)
        ids = [f"lab-{name}", *(f"cli-lab-{each.name.replace('_', '-')}" for each in fields(OPTIONS[name]))]
        for id in ids:
            assert text(f"shardwise.{id}") != english(f"shardwise.{id}"), (language.code, id)


@pytest.mark.parametrize("name", LABS)
def test_the_help_of_a_lab_shows_its_options(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["lab", "run", name, "--help"]) == 0
    shown = capsys.readouterr().out
    for each in fields(OPTIONS[name]):
        assert "--" + each.name.replace("_", "-") in shown
