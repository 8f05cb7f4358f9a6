"""The bank itself is in order, and each fault that the check knows is found in a bank that has just this fault."""

import copy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from labs.planner.zero import pieces_of, predict
from quiz import items, lint, units, variant
from quiz.__main__ import main
from quiz.items import BANK, misconceptions, objectives
from quiz.policy import policy
from shardwise.units import unit as find_unit
from translations import language

UNIT = "04-zero-1"


def bank() -> Any:
    return yaml.safe_load((BANK / f"{UNIT}.yaml").read_text(encoding="utf-8"))


def by_id(data: Any, id: str) -> Any:
    return next(item for item in data["items"] if item["id"] == id)


def found(data: Any, folder: Path) -> list[str]:
    path = folder / f"{UNIT}.yaml"
    path.write_text(yaml.safe_dump(data, allow_unicode=True, sort_keys=False), encoding="utf-8")
    return [str(finding) for finding in lint.check([path])]


@pytest.mark.parametrize("words", [["show", "zero-1-no-such"], ["curriculum"]])
def test_a_bank_that_cannot_be_read_is_a_sentence(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / f"{UNIT}.yaml").write_text("version: 1\nunit: 04-zero-1\nitems: [{id: half}]\n", encoding="utf-8")
    monkeypatch.setattr(sys.modules["quiz.items"], "BANK", tmp_path)
    assert main(words) == 1
    assert capsys.readouterr().err.startswith(f"{UNIT}.yaml:")


def test_the_bank_is_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check"]) == 0, capsys.readouterr().out
    assert f"items in {len(units())} units are in order" in capsys.readouterr().out


def set_options(data: Any, **changes: str) -> None:
    for key, text in changes.items():
        option = next(o for o in by_id(data, "zero-1-what-for")["options"] if o["key"] == key.replace("_", "-"))
        option["text"] = text


def longest(data: Any) -> None:
    for item in data["items"]:
        for option in item.get("options", ()) if item["form"] == "choice" else ():
            option["text"] += " and so on and so on and so on, as every learner can see at once" * bool(
                option.get("correct")
            )


def first(data: Any) -> None:
    for item in data["items"]:
        if item["form"] == "choice":
            item["options"].sort(key=lambda option: not option.get("correct"))


def fixed(data: Any) -> None:
    first(data)
    for item in data["items"]:
        if item["form"] == "choice":
            item["fixed"] = True


def recall(data: Any) -> None:
    for item in data["items"][:8]:
        item["kind"] = "recall"


def few(data: Any) -> None:
    del data["items"][10:]


def one_form(data: Any) -> None:
    data["items"] = [item for item in data["items"] if item["form"] != "order"]


def typed_in(data: Any) -> None:
    anew = [item for item in data["items"] if item.get("parameters") or item["form"] in ("number", "bytes")]
    data["items"] = [item for item in data["items"] if item not in anew[1:]]


def nameless(data: Any) -> None:
    next(o for o in by_id(data, "zero-1-what-for")["options"] if not o.get("correct")).pop("misconception")


FAULTS: list[tuple[str, Callable[[Any], object]]] = [
    ("the key is the longest option", longest),
    ("as written, the key stands in place 1", first),
    ("as shown, the key stands in place 1", fixed),
    ("ask for recall", recall),
    ("the bank has 10 items; a unit has 14 or more", few),
    ("no item has the form order", one_form),
    ("have seeded variants or a computed key", typed_in),
    ("names no misconception", nameless),
    (
        "two options read",
        lambda d: set_options(d, compress="It keeps model states once over all ranks instead of once on each"),
    ),
    ("is not in objectives.yaml", lambda d: d["items"][0].update(objective="no-such-objective")),
    ("belongs to unit 05-zero-2", lambda d: d["items"][0].update(objective="zero-2-bytes")),
    ("is not in misconceptions.yaml", lambda d: d["items"][0]["slips"][0].update(misconception="made-up")),
    ("the formula gives", lambda d: d["items"][0].update(formula="(2 + 14 / N) * billions")),
    ("give the 'formula' you expect", lambda d: d["items"][0].pop("formula")),
    ("the key is a bare number", lambda d: d["items"][0].update(key=61.8)),
    ("is the right answer in every variant", lambda d: d["items"][0]["slips"][0].update(value="states / 10**9")),
    ("names {missing}", lambda d: d["items"][0].update(text="How many GB for {missing} parameters in all, then?")),
    ("but nothing reads it", lambda d: d["items"][0]["parameters"].update(unread={"choose": [1, 2]})),
    ("a variant cannot be made", lambda d: d["items"][0]["let"].update(P="open('x')")),
    ("a variant cannot be made", lambda d: d["items"][0]["let"]["states"].update(call="labs.planner.zero:no_such")),
    ("options are marked correct", lambda d: by_id(d, "zero-1-what-for")["options"][0].update(correct=True)),
    ("the code has 8", lambda d: by_id(d, "zero-1-gather-before-update")["lines"][0].update(line=40)),
    ("is the right order", lambda d: by_id(d, "zero-1-order")["inversions"][0].update(first="forward", then="update")),
    ("not among the answers", lambda d: by_id(d, "zero-1-what-lies-where")["pairs"][0].update(match="nowhere")),
    ("the id is taken already", lambda d: d["items"].append(copy.deepcopy(d["items"][0]))),
    ("occurs twice", lambda d: by_id(d, "zero-1-what-for")["options"][0].update(key="compress")),
    ("has no unit 'parsec'", lambda d: d["items"][0].update(unit="parsec")),
    ("'feedback' is a required property", lambda d: by_id(d, "zero-1-what-for")["options"][0].pop("feedback")),
    ("too short", lambda d: by_id(d, "zero-1-what-for")["options"][0].update(feedback="No.")),
    ("'slips' is a required property", lambda d: d["items"][0].pop("slips")),
    ("was unexpected", lambda d: d["items"][0].update(id_of_option="x")),
]


@pytest.mark.parametrize(("sentence", "spoil"), FAULTS, ids=[f"{n}-{text[:30]}" for n, (text, _) in enumerate(FAULTS)])
def test_each_fault_is_found_with_its_line(sentence: str, spoil: Callable[[Any], object], tmp_path: Path) -> None:
    data = bank()
    spoil(data)
    findings = found(data, tmp_path)
    assert any(sentence in finding for finding in findings), findings
    assert all(f"{UNIT}.yaml:" in finding for finding in findings)


def test_a_fault_is_found_at_the_line_of_its_item(tmp_path: Path) -> None:
    data = bank()
    data["items"][3]["objective"] = "no-such-objective"
    finding = next(each for each in found(data, tmp_path) if "no-such-objective" in each)
    line = int(finding.split(":")[1])
    assert data["items"][3]["id"] in (tmp_path / f"{UNIT}.yaml").read_text().splitlines()[line - 1]


def test_an_objective_without_items_is_found() -> None:
    left = [item for item in items(UNIT) if item.objective != "zero-1-cost"]
    assert list(lint.list_faults(left)) == ["objective 'zero-1-cost' has no item"]


def test_every_unit_that_is_taught_has_a_whole_bank() -> None:
    """A bank may begin before its lesson; once that is there, the rules on size and forms hold for it."""
    taught = {unit for unit in units() if find_unit(unit).open(language("en"))}
    assert not taught & set(policy().begun)
    assert taught | set(policy().begun) == set(units())
    for unit in taught:
        assert len(objectives(unit)) >= 3


def test_misconceptions_point_to_units_that_exist() -> None:
    assert {each.unit for each in misconceptions().values() if each.unit} <= set(units())


@pytest.mark.parametrize("id", ["zero-1-lab-optimizer", "data-parallel-lab-traffic", "zero-2-lab-gradients"])
def test_predicted_bytes_are_those_of_the_lab(id: str) -> None:
    """The question's parameter count is the model's own, and its key what the strategies are predicted to hold."""
    from labs.model import GPT, Shape, parameter_count

    item = next(each for unit in units() for each in items(unit) if each.id == id)
    stage = int(item.code.split("--stage ")[1][0])
    precision = item.code.split("--precision ")[1].split()[0]
    for seed in range(3):
        values = variant(item, seed).values
        model = GPT(Shape(layers=int(values["layers"]), hidden=int(values["hidden"])))
        assert parameter_count(model) == values["P"]
        expected = predict(pieces_of(model.pieces), stage=stage, ranks=int(values["N"]), precision=precision)
        what = {
            "zero-1-lab-optimizer": expected.states.optimizer_states,
            "zero-2-lab-gradients": expected.states.gradients,
            "data-parallel-lab-traffic": expected.traffic,
        }[id]
        assert float(variant(item, seed).number(item.key or 0)) * 1e6 == pytest.approx(what, rel=item.tolerance / 2)
