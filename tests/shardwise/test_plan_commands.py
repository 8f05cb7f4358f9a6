"""The planner from the terminal: its JSON, its tables in every language, and what is asked wrongly."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from shardwise import cli

Printed = pytest.CaptureFixture[str]
BLOOM = ("--model", "bloom-176b", "--dp", "8", "--tp", "4", "--pp", "12", "--zero", "1", "--micro-batch", "2")


def run(*words: str) -> int:
    return cli.run(list(words))


def test_memory_prints_its_json(capsys: Printed) -> None:
    assert run("memory", *BLOOM, "--recompute", "full", "--gpu", "a100-80", "--json") == 0
    data = json.loads(capsys.readouterr().out)
    assert set(data) == {"total", "fits", "worst_rank", "bytes"}
    assert set(data["worst_rank"]) == {"stage", "rank"}
    names = ["parameters", "gradients", "optimizer_states", "activations", "gathered", "buckets", "logits", "slack"]
    assert list(data["bytes"]) == names
    assert data["total"] == sum(data["bytes"].values())
    assert data["fits"] is True


def test_memory_of_parameters_alone_is_the_papers_table(capsys: Printed) -> None:
    assert run("memory", "--params", "7.5e9", "--dp", "64", "--zero", "1", "--json") == 0
    data = json.loads(capsys.readouterr().out)
    assert data["total"] / 1e9 == pytest.approx(31.4, abs=0.05)
    assert data["fits"] is None
    assert sum(data["bytes"][name] for name in ("activations", "gathered", "buckets", "logits", "slack")) == 0


def test_throughput_and_traffic_and_plan_print_their_json(capsys: Printed) -> None:
    assert run("throughput", *BLOOM, "--gpu", "a100-80", "--batch", "2048", "--tokens", "366e9", "--json") == 0
    data = json.loads(capsys.readouterr().out)
    names = (
        "seconds_per_step", "bubble", "tflops_per_gpu", "mfu", "hfu", "tokens_a_day", "days", "gpu_hours", "cost",
        "energy_kwh", "site_kwh", "co2_kg",
    )  # fmt: skip
    assert set(data) == set(names)
    assert data["cost"] is None
    assert data["co2_kg"] is None
    place = ("--pue", "1.2", "--grid", "57")
    asked = ("throughput", *BLOOM, "--gpu", "a100-80", "--batch", "2048", "--tokens", "366e9", *place, "--json")
    assert run(*asked) == 0
    there = json.loads(capsys.readouterr().out)
    assert there["energy_kwh"] == data["energy_kwh"]
    assert there["co2_kg"] == pytest.approx(data["energy_kwh"] * 1.2 * 0.057)
    assert run("traffic", *BLOOM, "--gpu", "a100-80", "--batch", "2048", "--json") == 0
    data = json.loads(capsys.readouterr().out)
    assert set(data["axes"]) == {"tensor", "context", "data", "pipeline"}
    assert set(data["links"]) == {"node", "host", "network"}
    assert data["bottleneck"] is None
    assert run("plan", "gpt-7.5b", "--gpus", "16", "--gpu", "a100-80", "--batch", "64", "--json") == 0
    layouts = json.loads(capsys.readouterr().out)["layouts"]
    keys = {"dp", "tp", "pp", "zero", "recompute", "micro_batch", "interleave", "seconds", "bytes", "why_next_lost"}
    assert all(keys == set(each) for each in layouts)


@pytest.mark.parametrize("language", ["en", "nl", "ar"])
def test_tables_speak_every_language(language: str, capsys: Printed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "140")
    for words in (
        ("memory", "--model", "gpt3", "--dp", "1", "--zero", "1", "--tp", "8", "--pp", "4", "--gpu", "a100-80"),
        ("memory", "--params", "1e9"),
        ("traffic", *BLOOM, "--gpu", "tpu-v4"),
        ("throughput", *BLOOM, "--gpu", "h100", "--tokens", "1e9", "--price", "2", "--pue", "1.1", "--grid", "380"),
        ("plan", "gpt-7.5b", "--gpus", "8", "--gpu", "a100-80", "--batch", "16"),
        ("compare-estimators", *BLOOM, "--recompute", "full"),
        ("compare-estimators",),
        ("simulate", "--model", "lab", "--dp", "4", "--pp", "2", "--zero", "1"),
        ("compare-estimators", "--model", "gpt-7.5b", "--dp", "8", "--zero", "3"),
        ("compare-estimators", "--model", "gpt-1.7b", "--stack", "lab"),
    ):
        assert run(*words, "--lang", language) == 0
        shown = capsys.readouterr()
        assert shown.out
        assert "plan-" not in shown.out
        assert "Traceback" not in shown.err


def test_what_does_not_fit_gets_the_bar_to_attack_and_what_helps(capsys: Printed) -> None:
    assert run("memory", "--model", "gpt3", "--tp", "8", "--pp", "8", "--gpu", "a100-80", "--lang", "en") == 0
    shown = capsys.readouterr().out
    assert "= 18" in shown, "bytes a parameter of the model's stack"
    for words in (
        "The bar to attack: activations",
        "--recompute full saves",
        "then it fits",
        "a third more operations",
    ):
        assert words in shown
    assert run("memory", "--model", "gpt3", "--zero", "1", "--gpu", "a100-80", "--lang", "en") == 0
    assert "ZeRO has nothing to shard over" in " ".join(capsys.readouterr().out.split())
    assert run("memory", "--params", "1e9", "--zero", "2", "--lang", "en") == 0
    assert "ZeRO has nothing to shard over" in " ".join(capsys.readouterr().out.split())


def test_a_full_link_is_shown_as_the_bottleneck_and_what_is_hidden(capsys: Printed) -> None:
    words = (
        "traffic",
        "--model",
        "bloom",
        "--dp",
        "8",
        "--tp",
        "16",
        "--pp",
        "2",
        "--gpu",
        "a100-80",
        "--batch",
        "2048",
        "--lang",
        "en",
    )
    assert run(*words) == 0
    shown = " ".join(capsys.readouterr().out.split())
    for told in ("The link of the tensor axis is full", "it is the bottleneck", "PCIe", "25.0 GB/s", "hidden while"):
        assert told in shown.replace("\N{NARROW NO-BREAK SPACE}", " ")


def test_the_layout_that_a_paper_ran_is_placed_and_explained(capsys: Printed) -> None:
    assert run("plan", "bloom", "--gpus", "384", "--gpu", "a100-80", "--batch", "2048", "--lang", "en") == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "BigScience 2022" in shown
    assert "number 2 of 14" in shown
    assert run("plan", "gpt-18b", "--gpus", "256", "--gpu", "a100-80", "--batch", "1024", "--lang", "en") == 0
    assert "larger micro-batches" in " ".join(capsys.readouterr().out.split())


def test_a_model_of_ones_own_comes_from_a_file(tmp_path: Path, capsys: Printed) -> None:
    file = tmp_path / "own.yaml"
    file.write_text(
        "models: [{name: mine, layers: 2, hidden: 64, heads: 4, sequence: 32, vocabulary: 100, source: me}]\n"
    )
    assert run("memory", "--model", "mine", "--file", str(file), "--json") == 0
    assert json.loads(capsys.readouterr().out)["total"] > 0
    assert run("memory", "--model", "mine", "--gpu", "h100", "--file", str(file), "--json") == 0
    assert json.loads(capsys.readouterr().out)["fits"] is True


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("memory",), "--params"),
        (("memory", "--model", "bloom", "--params", "1"), "--params"),
        (("memory", "--params", "-1"), "params"),
        (("memory", "--params", "1e9", "--tp", "2"), "--tp"),
        (("memory", "--params", "1e9", "--recompute", "full"), "--recompute"),
        (("traffic", "--model", "bloom", "--gpu", "tpu-v4", "--dp", "8192"), "network"),
        (("throughput", "--model", "bloom", "--gpu", "tpu-v4", "--dp", "8192"), "network"),
        (("memory", "--model", "blom-176b"), "bloom-176b"),
        (("memory", *BLOOM, "--gpu", "a100-8"), "a100-80"),
        (("memory", "--model", "bloom", "--tp", "5"), "--tp 4"),
        (("memory", "--model", "bloom", "--pp", "71"), "--pp 70"),
        (("memory", "--model", "bloom", "--stages", "1,b"), "1,b"),
        (("memory", "--model", "bloom", "--stack", "none"), "megatron"),
        (("memory", *BLOOM, "--batch", "15"), "16"),
        (("traffic", "--model", "bloom"), "--gpu"),
        (("throughput", "--gpu", "h100"), "--model"),
        (("throughput", "--model", "bloom", "--gpu", "h100", "--tokens", "0"), "tokens"),
        (("plan", "gpt-1t", "--gpus", "8", "--gpu", "a100-80", "--batch", "8"), "80 GB"),
        (("plan", "gpt-1t", "--gpus", "0", "--gpu", "a100-80", "--batch", "8"), "gpus"),
        (("plan", "gpt3", "--gpus", "64", "--gpu", "a100-80", "--batch", "64", "--sequence", "-5"), "sequence"),
        (("plan", "gpt3", "--gpus", "64", "--gpu", "a100-80", "--batch", "1" + "0" * 18), "at most"),
        (("plan", "palm", "--gpus", "6144", "--gpu", "tpu-v4", "--batch", "2048"), "network"),
        (("memory", "--model", "bloom", "--sequence", "0"), "sequence"),
        (("memory", "--model", "bloom", "--micro-batch", "1" + "0" * 400), "at most"),
        (("memory", "--model", "bloom", "--cp", "3"), "--cp 2"),
        (("memory", "--model", "bloom", "--tp", "8", "--sequence", "100", "--sequence-parallel"), "100"),
        (("memory", "--model", "gpt3", "--pp", "8", "--interleave", "5"), "--interleave 4"),
        (("memory", "--model", "gpt3", "--interleave", "97"), "--interleave 96"),
        (("memory", "--model", "gpt3", "--dp", "3", "--batch", "100"), "--batch 99"),
        (("memory", "--model", "gpt3", "--dp", "0", "--batch", "8"), "dp"),
        (("traffic", "--model", "bloom", "--gpu", "h100", "--dp", "1" + "0" * 400), "at most"),
        (("throughput", "--model", "bloom", "--gpu", "h100", "--tokens", "1e300"), "at most"),
        (("throughput", "--model", "bloom", "--gpu", "h100", "--step-seconds", "1e-300"), "0.000001"),
        (("throughput", "--model", "bloom", "--gpu", "h100", "--price", "2"), "--tokens"),
        (("throughput", "--model", "bloom", "--gpu", "h100", "--grid", "57"), "--tokens"),
        (("throughput", "--model", "bloom", "--gpu", "h100", "--tokens", "1e9", "--pue", "0.9"), "1 at least"),
    ],
)
def test_wrong_use_says_what_works(words: tuple[str, ...], told: str, capsys: Printed) -> None:
    assert run(*words) == 2
    printed = capsys.readouterr()
    assert told in printed.err
    assert not printed.out


def test_estimators_stand_beside_ours_with_what_differs(capsys: Printed) -> None:
    """DeepSpeed's cold estimate counts 18 bytes where bf16 with fp32 Adam keeps 16."""
    assert (
        run("compare-estimators", "--model", "gpt-7.5b", "--dp", "8", "--zero", "2", "--stack", "zero", "--json") == 0
    )
    found = {each["name"]: each for each in json.loads(capsys.readouterr().out)["estimators"]}
    more = found["deepspeed"]["bytes"] - found["deepspeed"]["ours"]
    assert more == pytest.approx(7.468e9 * 4 / 8, rel=1e-3)
    assert found["deepspeed"]["differs"] == ["fp32-gradients", "gib"]


def test_published_estimates_stand_beside_ours(capsys: Printed) -> None:
    assert run("compare-estimators", "--json") == 0
    found = json.loads(capsys.readouterr().out)["published"]
    assert {each["estimator"] for each in found} == {"deepspeed", "accelerate", "eleuther", "llm-analysis"}
    for each in found:
        between = sum(reason["bytes"] for reason in each["differs"])
        assert each["bytes"] - each["ours"] == pytest.approx(between, abs=25e6)


def test_a_simulation_prints_its_json(capsys: Printed) -> None:
    assert run("simulate", "--model", "lab", "--dp", "100", "--pp", "2", "--tp", "2", "--json") == 0
    data = json.loads(capsys.readouterr().out)
    assert data["ranks"] == 400
    assert [each["rank"] for each in data["stages"]] == [0, 200]
    assert set(data["stages"][0]["axes"]) == {"pipeline", "tensor", "data"}


def test_torchs_simulation_prints_its_json_and_its_table(capsys: Printed) -> None:
    words = ("simulate", "--model", "lab", "--dp", "50", "--pp", "2", "--zero", "1", "--implementation", "torch")
    assert run(*words, "--json") == 0
    data = json.loads(capsys.readouterr().out)
    assert (data["implementation"], data["ranks"]) == ("torch", 100)
    assert [each["in_flight"] for each in data["stages"]] == [2, 1]
    assert all(each["peak_total"] > sum(each["bytes"]["states"].values()) / 2 for each in data["stages"])
    assert {"all_gather", "reduce_scatter"} <= set(data["stages"][0]["axes"]["data"])
    assert run(*words, "--lang", "en") == 0
    assert "100" in capsys.readouterr().out
    assert run(*words[:-1], "jax") == 2
    assert "torch" in capsys.readouterr().err


def test_a_step_that_no_accelerator_can_make_is_told(capsys: Printed) -> None:
    words = ("throughput", "--model", "gpt3", "--gpu", "a100-80", "--dp", "8", "--lang", "en")
    assert run(*words, "--step-seconds", "0.001") == 0
    assert "More than the accelerator can do" in capsys.readouterr().out
    assert run(*words) == 0
    assert "More than" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("zero", "batch", "told"),
    [
        ("2", "16", "after every micro-batch"),
        ("3", "16", "gathered twice"),
        ("3", "8", "half of it"),
        ("1", "16", "last"),
    ],
)
def test_what_the_data_axis_can_hide_follows_the_stage(zero: str, batch: str, told: str, capsys: Printed) -> None:
    words = ("traffic", "--model", "gpt-7.5b", "--gpu", "h100", "--dp", "8", "--zero", zero, "--batch", batch)
    assert run(*words, "--lang", "en") == 0
    assert told in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("lines", ["[" * 3000, "models: [5]", "models: [{name: 5}]", "\x00"])
def test_a_file_that_holds_nothing_is_told(lines: str, tmp_path: Path, capsys: Printed) -> None:
    file = tmp_path / "own.yaml"
    file.write_text(lines)
    assert run("memory", "--model", "mine", "--file", str(file)) == 2
    assert "own.yaml" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("kind", "row", "told"),
    [
        ("models", {"hidden": 10**400}, "hidden"),
        ("models", {"norms": "abc"}, "norms"),
        ("models", {"gated": "no"}, "gated"),
        ("models", {"key_value_heads": 3}, "key_value_heads"),
        ("models", {"aliases": [1]}, "aliases"),
        ("models", {"stack": [1]}, "stack"),
        ("models", {"experts": {"routed": 4, "shared": 1, "active": 9, "features": 7}}, "experts"),
        ("models", {"latent": {"query_rank": 1, "value_rank": 1, "rotary": 1, "value_size": "a"}}, "value_size"),
        ("accelerators", {"memory": float("inf")}, "memory"),
        ("accelerators", {"memory": "80"}, "memory"),
        ("accelerators", {"network": -5}, "network"),
        ("accelerators", {"network": 10**400}, "network"),
        ("accelerators", {"watts": "abc"}, "watts"),
        ("accelerators", {"pair": 0}, "pair"),
        ("accelerators", {"title": ["a"]}, "title"),
        ("accelerators", {"memroy": 80}, "memroy"),
    ],
)
def test_a_wrong_value_in_a_file_is_named(
    kind: str, row: dict[str, object], told: str, tmp_path: Path, capsys: Printed
) -> None:
    right: dict[str, dict[str, object]] = {
        "models": {"layers": 2, "hidden": 64, "heads": 4, "sequence": 32, "vocabulary": 100},
        "accelerators": {"memory": 80, "bandwidth": 2000, "peak": 300, "link": 300, "node": 8},
    }
    file = tmp_path / "own.yaml"
    file.write_text(yaml.safe_dump({kind: [{"name": "mine", "source": "me"} | right[kind] | row]}))
    asked = ("--model", "mine") if kind == "models" else ("--model", "gpt3", "--gpu", "mine")
    assert run("memory", *asked, "--file", str(file)) == 2
    assert told in capsys.readouterr().err


def test_goodput_prints_its_json_and_speaks_every_language(capsys: Printed, monkeypatch: pytest.MonkeyPatch) -> None:
    llama = ("--gpus", "16384", "--failures", "419", "--days", "54", "--save-seconds", "3", "--restart-seconds", "540")
    assert run("goodput", *llama, "--json") == 0
    data = json.loads(capsys.readouterr().out)
    assert data["goodput"] > 0.9
    assert data["simulated"]["goodput"] == pytest.approx(data["goodput"], abs=4 * data["simulated"]["standard_error"])
    assert data["interval_seconds"] == data["best_interval_seconds"]
    assert sum(data["hours"].values()) == pytest.approx(54 * 24)
    assert max(each["goodput"] for each in data["by_interval"]) == data["goodput"]
    sizes = [each["goodput"] for each in data["by_size"]]
    assert sizes == sorted(sizes, reverse=True)
    monkeypatch.setenv("COLUMNS", "80")
    for language in ("en", "nl", "ar"):
        for words in (llama, ("--gpus", "131072", "--spares", "9", "--elastic", "--interval-seconds", "900")):
            assert run("goodput", *words, "--lang", language) == 0
            shown = capsys.readouterr().out
            assert shown
            assert "goodput-" not in shown


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--gpus", "0"), "gpus"),
        (("--gpus", "8", "--days", "0"), "days"),
        (("--gpus", "8", "--mtbf-hours", "nan"), "mtbf-hours"),
        (("--gpus", "8", "--restart-seconds", "-1"), "restart-seconds"),
        (("--gpus", "8", "--failures", "3", "--mtbf-hours", "3"), "--failures"),
        (("--gpus", "9", "--elastic"), "--replica"),
        (("--gpus", "8", "--spares", "-1"), "spares"),
        (("--gpus", "1000000", "--mtbf-hours", "1"), "--days"),
        (("--gpus", "1" + "0" * 400), "at most"),
        (("--gpus", "8", "--failures", "1e-300"), "failures"),
        (("--gpus", "8", "--interval-seconds", "1e300"), "interval-seconds"),
    ],
)
def test_goodput_says_what_works(words: tuple[str, ...], told: str, capsys: Printed) -> None:
    assert run("goodput", *words) == 2
    printed = capsys.readouterr()
    assert told in printed.err
    assert not printed.out


def test_planners_beside_each_other(capsys: Printed) -> None:
    assert run("compare-planners", "--json") == 0
    data = json.loads(capsys.readouterr().out)
    assert data["planner"] == "alpa"
    assert [each["gpus"] for each in data["models"]] == [2, 4, 8, 16, 32, 64]
    assert data["models"][-1]["reason"] == "same"
    for language in ("en", "ar"):
        assert run("compare-planners", "--lang", language) == 0
        shown = capsys.readouterr().out
        assert "39B" in shown
        assert "1 × 4 × 16" in shown
