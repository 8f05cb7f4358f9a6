"""The published tables come out: every number that a formula determines, at the tolerance its print allows."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import yaml

from labs.planner import activations, hardware, models
from labs.planner.recomputed import FOLDER, FORMULAS, Cell, cells, facts, published, reasons
from labs.planner.recomputed_facts import FACTS, cells_of_facts
from translations import CourseError


def line(cell: Cell) -> str:
    computed = f"{cell.low:.6g}" if cell.low == cell.high else f"{cell.low:.6g} to {cell.high:.6g}"
    told = f"{cell.source} {cell.table} {cell.column} {cell.row}: printed {cell.printed:g}, computed {computed}"
    return f"{told}, off by {cell.off:.2%}: {cell.why}" if cell.found == "off" else told


def test_every_number_that_a_formula_determines_comes_out() -> None:
    """Prints what was compared: exact, within rounding, truncated in print, or off by how much and why."""
    found = [*cells(), *cells_of_facts()]
    tables: dict[tuple[str, str], Counter[str]] = {}
    for cell in found:
        tables.setdefault((cell.source, cell.table), Counter())[cell.found] += 1
    print(f"\n{'source':24}{'table':22}{'cells':>6}{'exact':>7}{'rounded':>9}{'truncated':>11}{'off':>5}")
    for (source, table), counts in [*sorted(tables.items()), (("all", ""), Counter(cell.found for cell in found))]:
        numbers = [counts[kind] for kind in ("exact", "rounded", "truncated", "off")]
        print(f"{source:24}{table:22}{counts.total():6}{numbers[0]:7}{numbers[1]:9}{numbers[2]:11}{numbers[3]:5}")
    off = [cell for cell in found if cell.found == "off"]
    print("\n".join(map(line, off)))
    assert len(found) >= 380
    assert not [line(cell) for cell in off if not cell.why], (
        "printed numbers that the formula does not give, unexplained"
    )
    assert len(off) <= 25, "a formula has become worse"


def test_what_is_explained_is_off() -> None:
    off = {(cell.source, cell.table, cell.column) for cell in (*cells(), *cells_of_facts()) if cell.found == "off"}
    assert set(reasons()) == off


def test_every_published_number_has_a_formula_or_is_said_to_have_none() -> None:
    """A new column or fact goes into FORMULAS or FACTS, or with what it is into `measured.yaml`."""
    listed = yaml.safe_load((FOLDER / "measured.yaml").read_text(encoding="utf-8"))
    without = {(row["source"], row["table"], column) for row in listed["tables"] for column in row["columns"]}
    facts_without = {(row["source"], row["fact"]) for row in listed["facts"]}
    files = [file for file in sorted(FOLDER.glob("*.yaml")) if file.stem not in ("explained", "measured")]
    columns = {
        (file.stem, id, column) for file in files for id, table in published(file.stem).items()
        for column in table["value_cols"]
    }  # fmt: skip
    known = {(file.stem, id) for file in files for id in facts(file.stem)}
    computed = {(source, fact) for source, fact, _ in FACTS}
    assert sorted(columns - set(FORMULAS) - without) == [], "neither a formula nor in measured.yaml"
    assert sorted((without & set(FORMULAS)) | (without - columns)) == [], "has a formula, or stands in no table"
    assert sorted(known - computed - facts_without) == [], "neither a formula nor in measured.yaml"
    assert sorted((facts_without & computed) | (facts_without - known)) == [], "has a formula, or is no fact"


def test_what_an_upper_bound_says_holds() -> None:
    """Korthikanti et al. 2022, section 4.3: what lies outside of the layers of 22B is less than 1 % of all."""
    shape = models.model("gpt-22b")
    sizes = {"sequence": 2048, "batch": 4, "hidden": shape.hidden}
    outside = activations.outside_layers(**sizes, vocabulary=shape.vocabulary, tensor=8)
    layers = activations.first_stage(layers=shape.layers, heads=shape.heads, tensor=8, sequence_parallel=True, **sizes)
    assert outside / (layers + outside) < facts("korthikanti_2022")["extra_terms_22b"]


def test_every_formula_has_its_column() -> None:
    for source, table, column in FORMULAS:
        found = published(source)[table]
        assert column in [*found["config_cols"], *found["value_cols"]], (source, table, column)


@pytest.mark.parametrize(
    ("name", "printed"),
    [
        ("gpt-1.7b", "1.7"),
        ("gpt-7.5b", "7.5"),
        ("gpt-18b", "18.4"),
        ("gpt-76b", "76.1"),
        ("gpt-310b", "310.1"),
        ("gpt-1t", "1008.0"),
        ("gpt3", "174.6"),
        ("mt-nlg", "529.6"),
        ("palm", "540.4"),
        ("llama3-405b", "406"),
        ("deepseek-v3", "671"),
        ("mixtral", "46.7"),
    ],
)
def test_models_have_the_parameters_that_their_papers_print(name: str, printed: str) -> None:
    assert f"{models.model(name).parameters / 1e9:.{len(printed.partition('.')[2])}f}" == printed


def test_bloom_has_its_parameters_exactly() -> None:
    """70 layers, the padded vocabulary, no position table, a norm after the embedding: the README's formula."""
    assert models.model("bloom").parameters == 70 * (12 * 14336**2 + 13 * 14336) + 250880 * 14336 + 4 * 14336
    assert models.model("deepseek").active_parameters / 1e9 == pytest.approx(37, rel=0.02)
    assert models.model("mixtral").active_parameters / 1e9 == pytest.approx(12.9, rel=0.005)
    assert models.padded(50257, tensor=8) == 51200
    assert models.padded(250680, tensor=4) == 250880


def test_the_labs_own_model_is_counted_as_torch_counts_it() -> None:
    import torch

    from labs.model import GPT, Shape, parameter_count

    with torch.device("meta"):
        assert models.model("lab").parameters == parameter_count(GPT(Shape(layers=4, hidden=256, heads=4, sequence=32)))


def test_names_are_unique_and_everything_has_a_source() -> None:
    for found in (models.models(), hardware.accelerators()):
        for name, each in found.items():
            assert each.source, name
            assert name == name.lower()


def test_an_unknown_name_gets_the_nearest() -> None:
    with pytest.raises(CourseError, match="bloom-176b"):
        models.model("blom-176b")
    with pytest.raises(CourseError, match="a100-80"):
        hardware.accelerator("a100-8")


def test_a_learner_adds_a_model_and_an_accelerator_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "own.yaml"
    file.write_text(
        "models: [{name: mine, layers: 2, hidden: 8, heads: 2, sequence: 4, vocabulary: 16, source: me}]\n"
        "accelerators: [{name: card, memory: 1, bandwidth: 1, peak: 2, link: 1, node: 1, source: me}]\n"
    )
    assert models.model("mine", file=file).parameters == 16 * 8 + 4 * 8 + 2 * (12 * 64 + 13 * 8) + 16
    assert hardware.accelerator("card", file=file).peak == 2e12
    file.write_text("models: [{name: mine, layers: 2, hiden: 8}]")
    with pytest.raises(CourseError, match="no models"):
        models.model("mine", file=file)
    assert hardware.accelerator("a100", file=file).name == "a100-80", "a file may hold models only"
    for rows in ("[]", "[{name: x, memory: 1}]", "[{name: x, memory: 0, bandwidth: 1, peak: 2, link: 1, node: 1}]"):
        file.write_text(f"accelerators: {rows}" if rows != "[]" else rows)
        with pytest.raises(CourseError, match="no accelerators"):
            hardware.accelerator("card", file=file)
    for heads in ("0", "two", "1.5"):
        file.write_text(f"models: [{{name: mine, layers: 2, hidden: 8, heads: {heads}, sequence: 4, vocabulary: 16}}]")
        with pytest.raises(CourseError, match="heads"):
            models.model("mine", file=file)


def test_the_file_that_the_documentation_shows_is_read(tmp_path: Path) -> None:
    text = (Path(__file__).parents[3] / "docs" / "planner.md").read_text(encoding="utf-8")
    file = tmp_path / "own.yaml"
    file.write_text(text.partition("```yaml\n")[2].partition("```")[0])
    assert models.model("mine", file=file).parameters / 1e9 == pytest.approx(8.03, abs=0.01), "the shape of Llama 3 8B"
    assert hardware.accelerator("card", file=file).network == 100e9 / 8
