"""The exercises as content: complete in every language, well formed, and held by the authors' own check."""

from __future__ import annotations

import ast
import copy
import shutil
from pathlib import Path

import pytest
import torch

from labs.exercises import authoring, check, exercise, exercises, hint, small
from labs.exercises.content import VERSIONS, written
from labs.exercises.trial import different, misshapen
from translations import languages
from translations.whole import languages_with

IDS = [each.id for each in exercises()]
LANGUAGES = [each.code for each in languages()]


def test_order_of_the_units() -> None:
    assert IDS[:4] == ["model-states", "data-parallel", "ring-all-reduce", "loss-scaling"]
    assert [each.unit for each in exercises()] == sorted(each.unit for each in exercises())


@pytest.mark.parametrize(
    ("id", "language"), [(id, each.code) for id in IDS for each in languages_with({f"exercise-{id}"})]
)
def test_every_language_has_all_texts(id: str, language: str) -> None:
    own, english = exercise(id, language), exercise(id)
    assert (own.points, own.broken, own.name) == (english.points, english.broken, english.name)
    assert [part.answer for part in own.diagnosis.parts] == [part.answer for part in english.diagnosis.parts]
    if language == "en":
        return
    pairs = [(own.title, english.title), (own.story, english.story), (own.task, english.task)]
    pairs += [(own.unwritten, english.unwritten), *zip(own.hints, english.hints, strict=True)]
    pairs += [(own.failures[key], english.failures[key]) for key in english.failures]
    pairs += [(own.remarks[key], english.remarks[key]) for key in english.remarks]
    for mine, theirs in zip(own.diagnosis.parts, english.diagnosis.parts, strict=True):
        pairs += [(a.feedback, b.feedback) for a, b in zip(mine.options, theirs.options, strict=True)]
    assert [theirs for mine, theirs in pairs if mine == theirs] == []
    assert [hint(id, n, language) for n in (1, 2, 3)] == list(own.hints)


@pytest.mark.parametrize("id", IDS)
@pytest.mark.parametrize("language", LANGUAGES)
def test_translated_code_does_the_same(id: str, language: str) -> None:
    for version in VERSIONS:
        code, english = exercise(id, language).code(version), exercise(id).code(version)
        assert without_words(code) == without_words(english)
        assert max(len(line) for line in code.splitlines()) <= 130


def without_words(code: str) -> str:
    """The code's tree without docstrings."""
    tree = ast.parse(code)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return ast.dump(tree)


@pytest.mark.parametrize("language", LANGUAGES)
def test_verdict_in_every_language(language: str) -> None:
    own = exercise("zero-1", language)
    stub = check("zero-1", own.code("stub"), language)
    assert stub.failed_at == "file/unwritten"
    assert own.unwritten in stub.message
    faded = check("zero-1", own.code("faded"), language)
    assert faded.failed_at == "gradients/own"
    assert faded.rank == 0
    assert "{" not in faded.message
    raised = check("zero-1", "def optimizer_step(units):\n    units[9]\n", language)
    assert "IndexError" in raised.message
    assert "    2: units[9]" in raised.message


def test_diagnosis_explains_every_answer() -> None:
    rank = exercise("zero-1").diagnosis.rank
    assert rank is not None
    assert rank.feedback("every")[0]
    right, why = rank.feedback("zero")
    assert not right
    assert "index -1" in why
    with pytest.raises(KeyError):
        rank.feedback("none of them")


@pytest.mark.parametrize("id", IDS)
def test_texts_and_findings_agree(id: str) -> None:
    assert list(authoring.words(exercise(id))) == []


def test_authors_are_told_what_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    data = copy.deepcopy(written("model-states"))
    data["failures"]["never-found"] = "A sentence that no learner will ever come to read, whatever they do."
    del data["failures"]["one-state"]
    data["diagnosis"]["rule"]["answer"] = "no-option"
    monkeypatch.setattr("labs.exercises.content.written", lambda id: data)
    sentences = " ".join(authoring.words(exercise("model-states")))
    assert "'never-found' is never told" in sentences
    assert "'no-option'" in sentences


def test_authors_check_walks_an_exercise(capsys: pytest.CaptureFixture[str]) -> None:
    assert authoring.main(["check", "model-states"]) == 0
    assert "solution passes" in capsys.readouterr().out
    assert authoring.main(["check", "no-such-exercise"]) == 2
    assert authoring.main([]) == 2


def test_authors_check_finds_a_solution_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = exercise("model-states")
    copied = tmp_path / "model_states"
    shutil.copytree(own.folder, copied)
    shutil.copy(copied / "broken.py", copied / "solution.py")
    shutil.copy(copied / "solution.py", copied / "stub.py")
    monkeypatch.setattr("labs.exercises.content.Exercise.folder", copied)
    sentences = " ".join(authoring.runs(own))
    assert "the solution must pass" in sentences
    assert "the stub must file/unwritten" in sentences


def test_twin_is_one_process_that_sees_every_example() -> None:
    ranks, count = 3, 2
    (step,) = small.twin(seed=5, ranks=ranks, count=count, steps=1)
    model = small.Small(5)
    batches = [b for r in range(ranks) for b in small.micro_batches(seed=5, step=0, rank=r, count=count)]
    x, y = (torch.cat(parts) for parts in zip(*batches, strict=True))
    whole = small.gradients(model, (x, y), 1)
    assert all(torch.allclose(a, b, rtol=1e-12, atol=1e-15) for a, b in zip(step.mean, whole, strict=True))
    for n in (2, 3, 4):
        assert any(size % n for size in model.sizes)


def test_nothing_equals_a_nan() -> None:
    good, bad = torch.ones(3, dtype=torch.float64), torch.full((3,), float("nan"), dtype=torch.float64)
    assert misshapen(bad, good, group="g", rank=0) is not None
    assert different(bad, good, {}, group="g", rank=0) is not None
    assert different(good, good.clone(), {}, group="g", rank=0) is None
