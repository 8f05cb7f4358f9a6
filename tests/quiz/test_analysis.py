"""Item analysis against an independent computation, on classes whose truth is known because it was made."""

from __future__ import annotations

import csv
import json
import math
import random
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quiz import items
from quiz.analysis import LEAST, Analysis, Response, analyse, known
from quiz.analysis_drawn import figures
from quiz.responses import responses
from shardwise import cli
from translations import CourseError, languages


def a_class(
    learners: int = 200, *, seed: int = 7, questions: int = 12, harder_in: str = "", swapped: int = -1
) -> list[Response]:
    """Learners of known ability answer questions of known difficulty (a Rasch model); question 3 is a coin.

    In the language `harder_in`, question 5 is much harder than it is; `swapped` is a question whose key is wrong.
    """
    dice, found = random.Random(seed), []
    for n in range(learners):
        ability, language = dice.gauss(0, 1.2), ("en", "nl", "ar")[n % 3]
        for q in range(questions):
            hard = -1.5 + 3 * q / questions + (2.5 if q == 5 and language == harder_in else 0)
            chance = 0.5 if q == 3 else 1 / (1 + math.exp(hard - ability))
            right = dice.random() < chance
            if q == swapped:
                right = not right
            given = "key" if right else dice.choice(["b", "b", "b", "c"])
            found.append(
                Response(
                    learner=f"learner {n}", item=f"q{q:02}", version=1, language=language, form="choice",
                    correct=right, credit=float(right), given=given, order=str(n),
                )
            )  # fmt: skip
    return found


def test_figures_equal_an_independent_computation() -> None:
    given_answers = a_class()
    found = {each.item: each for each in analyse(given_answers).items}
    table = np.array([[r.credit for r in given_answers if r.learner == f"learner {n}"] for n in range(200)])
    for q in range(12):
        rest = np.delete(table, q, axis=1).mean(axis=1)
        each = found[f"q{q:02}"]
        assert each.difficulty == pytest.approx(table[:, q].mean())
        assert each.discrimination == pytest.approx(np.corrcoef(table[:, q], rest)[0, 1])
        chose_b = np.array([r.given == "b" for r in given_answers if r.item == each.item])
        [b] = [one for one in each.wrong if one.key == "b"]
        assert b.share == pytest.approx(chose_b.mean())
        assert b.discrimination == pytest.approx(np.corrcoef(chose_b, rest)[0, 1])
        assert sum(one.share for one in each.wrong) + (each.right or 0) == pytest.approx(1)


def test_what_was_planted_is_found_and_nothing_else_is_said_of_gaps() -> None:
    found = {each.item: each for each in analyse(a_class(900, harder_in="ar", swapped=8)).items}
    assert found["q03"].discrimination is not None
    assert abs(found["q03"].discrimination) < 0.1, "a coin tells nobody apart"
    assert "negative" in found["q08"].remarks, "a wrong key shows as a negative discrimination"
    assert "attractive" in found["q08"].remarks
    assert {id for id, each in found.items() if "gap" in each.remarks} == {"q05"}
    [gap] = [each for each in found["q05"].gaps if (each.first, each.second) == ("ar", "en")]
    assert gap.difference < -0.25
    assert gap.alike is not None
    assert gap.alike == pytest.approx(gap.difference, abs=0.1), (
        "the groups are alike, so it stays when they are matched"
    )


def test_a_gap_in_ability_is_no_gap_of_the_question() -> None:
    """Arabic readers here are simply a stronger group: matched on the rest, the difference goes."""
    dice, found = random.Random(3), []
    for n in range(1200):
        language = ("en", "ar")[n % 2]
        ability = dice.gauss(0.4 if language == "ar" else -0.4, 0.7)
        for q in range(20):
            right = dice.random() < 1 / (1 + math.exp(q / 10 - 1 - ability))
            found.append(
                Response(
                    learner=str(n), item=f"q{q:02}", version=1, language=language, form="number",
                    correct=right, credit=float(right),
                )
            )  # fmt: skip
    gaps = [each.gaps[0] for each in analyse(found).items]
    assert all(gap.difference > 0.05 and gap.alike is not None for gap in gaps)
    plain, alike = (
        sum(abs(value or 0) for value in of) for of in zip(*((g.difference, g.alike) for g in gaps), strict=True)
    )
    assert alike < 0.5 * plain
    assert sum(gap.difference > 0.1 for gap in gaps) >= 15, "plainly compared, nearly every question would be suspect"
    assert sum(gap.surprising for gap in gaps) <= 4


def test_the_rule_of_30_withholds_everything_below() -> None:
    few = analyse(a_class(LEAST - 1))
    assert few.shown == ()
    text = json.dumps(few.as_json()["items"])
    assert set(re.findall(r"[\d.]+", re.sub(r'"(item|version)": [^,]+', "", text))) == set(), (
        "no number but the version"
    )
    assert few.learners is None
    just = analyse(a_class(LEAST))
    assert all(each.difficulty is not None and each.learners == LEAST for each in just.items)
    assert all(one.difficulty is None and one.learners is None for each in just.items for one in each.languages)
    assert all(each.gaps == () for each in just.items), "ten learners a language are too few to compare"


def test_only_the_first_answer_counts_and_an_edited_question_begins_anew() -> None:
    base = a_class(40)
    again = [replace(each, correct=True, credit=1.0, order="zz later") for each in base]
    assert analyse([*again, *base]) == analyse(base)
    edited = [replace(each, version=2) for each in base if each.item == "q00"]
    both = [each for each in analyse([*base, *edited]).items if each.item == "q00"]
    assert [(each.version, each.learners) for each in both] == [(1, 40), (2, 40)]


@settings(max_examples=15, deadline=None)
@given(st.randoms(use_true_random=False), st.integers(31, 60))
def test_order_and_names_change_nothing(dice: random.Random, learners: int) -> None:
    base = a_class(learners, questions=4)
    renamed = {f"learner {n}": f"other {(n * 7919) % 100003}" for n in range(learners)}
    mixed = [replace(each, learner=renamed[each.learner]) for each in base]
    dice.shuffle(mixed)
    one, two = analyse(base), analyse(mixed)
    for a, b in zip(one.items, two.items, strict=True):
        assert (a.difficulty, a.right) == pytest.approx((b.difficulty, b.right))
        assert a.discrimination == pytest.approx(b.discrimination)
        assert [w.key for w in a.wrong] == [w.key for w in b.wrong]
        assert a.discrimination is None or -1 <= a.discrimination <= 1


def test_wrong_answers_that_nobody_chose_are_seen_where_the_bank_is_known() -> None:
    item = next(each for each in items("04-zero-1") if each.form == "choice")
    right = next(option.key for option in item.options if option.correct)
    found = [
        Response(
            learner=str(n), item=item.id, version=item.version, language="en", form="choice",
            correct=True, credit=1.0, given=right,
        )
        for n in range(40)
    ]  # fmt: skip
    [each] = analyse(found, known=known([item])).items
    assert {one.key: one.share for one in each.wrong} == {o.key: 0 for o in item.options if not o.correct}
    assert {"easy", "unused"} <= set(each.remarks)
    assert each.discrimination is None, "what does not vary does not correlate"


def rows_of(answers: list[Response]) -> list[dict[str, Any]]:
    return [
        {name: getattr(each, name) for name in ("learner", "item", "version", "language", "form", "correct", "credit")}
        | {"given": each.given, "made": each.order}
        for each in answers
    ]


def test_every_kind_of_file_is_read_alike(tmp_path: Path) -> None:
    rows = rows_of(a_class(35))
    (tmp_path / "a.json").write_text(json.dumps(rows))
    (tmp_path / "b.json").write_text(json.dumps({"answers": rows}))
    (tmp_path / "c.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    with (tmp_path / "d.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows({**row, "given": json.dumps(row["given"])} for row in rows)
    found = [analyse(responses(tmp_path / name)) for name in ("a.json", "b.json", "c.jsonl", "d.csv")]
    assert all(each == found[0] for each in found)
    assert len(found[0].shown) == 12
    read = list(responses(tmp_path / "a.json"))
    assert not any("learner 1" in str(each) for each in read), "names are not kept"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[1]",
        '[{"learner": "a"}]',
        '{"answers": 3}',
        "null",
        "[" * 5000,
        *(
            '[{"learner":"a","item":"q","version":1,"language":"en","form":"choice","correct":true,"credit":'
            + credit
            + "}]"
            for credit in ("7", "NaN", "-1", '"x"')
        ),
    ],
)
def test_files_that_hold_no_answers_are_refused_in_a_sentence(tmp_path: Path, text: str) -> None:
    path = tmp_path / "answers.json"
    path.write_text(text)
    if text == "":
        assert list(responses(path)) == []
        return
    with pytest.raises(CourseError, match="holds no answers"):
        list(responses(path))


def many() -> Analysis:
    return analyse(a_class(300, harder_in="nl", swapped=8))


def test_figures_say_their_numbers_in_every_language() -> None:
    for language in languages():
        drawn = dict(figures(many(), language=language))
        assert set(drawn) == {"difficulty", "wrong-answers", "languages"}
        for figure in drawn.values():
            assert figure.alt
            assert "q05" in figure.alt
            assert "<table" in figure.html
            assert figure.markup.startswith("<svg")
    assert not dict(figures(analyse(a_class(9)), language="en"))


def test_the_command_prints_a_table_and_writes_csv_and_plots(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHARDWISE_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("COLUMNS", "200")
    answers = rows_of(a_class(120, harder_in="ar"))
    answers[0]["item"] = "=cmd()"
    (tmp_path / "answers.json").write_text(json.dumps(answers))
    where = str(tmp_path / "answers.json")
    out, plots = tmp_path / "table.csv", tmp_path / "plots"
    assert cli.run(["quiz", "analyse", where, "--csv", str(out), "--plots", str(plots), "--lang", "en"]) == 0
    printed = capsys.readouterr().out
    assert "q05" in printed
    assert "120 learners" in printed
    assert "withheld" in printed, "one question was answered once"
    assert "=cmd()" not in printed
    with out.open(encoding="utf-8") as file:
        table = list(csv.DictReader(file))
    assert {row["item"] for row in table} >= {"q00", "'=cmd()"}
    [few] = [row for row in table if row["item"] == "'=cmd()"]
    assert (few["learners"], few["difficulty"]) == ("", "")
    assert {path.name for path in plots.iterdir()} == {
        "analysis.json",
        "difficulty.svg",
        "wrong-answers.svg",
        "languages.svg",
    }
    assert cli.run(["quiz", "analyse", where, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["least"] == LEAST
    assert cli.run(["quiz", "analyse", "record"]) == 1, "a record with nothing in it"
    assert cli.run(["quiz", "analyse", str(tmp_path / "none.json")]) == 2


def test_a_measured_share_reaches_the_draw() -> None:
    from quiz.exam import band

    item = items("04-zero-1")[0]
    found = [
        Response(
            learner=str(n), item=item.id, version=item.version, language="en", form=item.form,
            correct=n > 2, credit=float(n > 2),
        )
        for n in range(40)
    ]  # fmt: skip
    measured = analyse(found).measured()
    assert measured == {f"{item.id}@{item.version}": pytest.approx(37 / 40)}
    assert (band(item), band(item, measured)) == ("hard", "easy")
