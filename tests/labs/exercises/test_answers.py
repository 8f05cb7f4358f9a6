"""Right answers pass, each wrong one fails where it should, and the message says what its value means."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from labs.exercises import Verdict, check, exercise, exercises

IDS = [each.id for each in exercises()]


@dataclass(frozen=True, kw_only=True)
class Wrong:
    """The solution with some of its text replaced, where that must fail, and words of the message."""

    exercise: str
    name: str
    changes: tuple[tuple[str, str], ...]
    failed_at: str
    says: str

    @property
    def source(self) -> str:
        code = exercise(self.exercise).code("solution")
        for old, new in self.changes:
            assert old in code, f"{old!r} is not in the solution"
            code = code.replace(old, new)
        return code


def wrong(exercise: str, name: str, *changes: tuple[str, str], at: str, says: str) -> Wrong:
    return Wrong(exercise=exercise, name=name, changes=changes, failed_at=at, says=says)


AVG, SUM = "ReduceOp.AVG", "ReduceOp.SUM"
REDUCE_1 = "        dist.reduce_scatter_single(shard, unit.gradients, op=dist.ReduceOp.AVG, group=unit.group)\n"
GATHER_1 = "        dist.all_gather_single(unit.whole, unit.shard, group=unit.group)"
REDUCE_2 = "    dist.reduce_scatter_single(shard, bucket, op=dist.ReduceOp.AVG, group=unit.group)\n"
GATHER_3 = "        dist.all_gather_single(unit.whole, unit.shard, group=unit.group)\n"
REDUCE_3 = "        dist.reduce_scatter_single(shard, bucket, op=dist.ReduceOp.AVG, group=self.unit.group)\n"
RESIZE_3 = "        self.unit.whole.untyped_storage().resize_(0)\n"

WRONG = [
    wrong("zero-1", "sum", (AVG, SUM), at="gradients/sum", says="2 times too large"),
    wrong("zero-1", "no reduce", (REDUCE_1, ""), at="gradients/own", says="own gradients"),
    wrong("zero-1", "divided only", (REDUCE_1, "        shard /= unit.ranks\n"),
          at="gradients/own-divided", says="divided"),
    wrong("zero-1", "divided twice", (REDUCE_1, REDUCE_1 + "        shard /= 2\n"),
          at="gradients/divided-twice", says="small"),
    wrong("zero-1", "no gather", (GATHER_1, "        pass"), at="step/not-gathered", says="drift apart"),
    wrong("zero-1", "gather into another tensor", (GATHER_1, GATHER_1.replace("unit.whole", "unit.whole.clone()")),
          at="step/not-gathered", says="as before"),
    wrong("zero-1", "first unit only", ("in units:", "in units[:1]:"), at="ownership/not-updated", says="unit 1"),
    wrong("zero-1", "whole to update", ("unit.update(shard)", "unit.update(unit.gradients)"), at="shape/not-a-shard",
          says="tensor float64 (42,)"),
    wrong("zero-1", "list to update", ("unit.update(shard)", "unit.update([shard])"),
          at="shape/not-a-shard", says="list"),
    wrong("zero-1", "updated twice", ("unit.update(shard)", "unit.update(shard); unit.update(shard)"),
          at="ownership/updated-twice", says="2 times"),
    wrong("zero-1", "gradients left", (GATHER_1, GATHER_1 + "\n        unit.gradients.fill_(1)"),
          at="step/gradients-left",
          says="not zero"),
    wrong("zero-1", "rank 0 only", (GATHER_1, "        if unit.rank == 0:\n    " + GATHER_1), at="shape/mismatch",
          says="Rank"),
    wrong("zero-1", "right for 2 ranks only", (AVG, SUM), ("unit.update(shard)", "unit.update(shard / 2)"),
          at="more-ranks/factor", says="1.5 times"),
    wrong("zero-2", "sum", (AVG, SUM), at="gradients/sum", says="2 times too large"),
    wrong("zero-2", "no reduce", (REDUCE_2, ""), at="gradients/own", says="nothing has come"),
    wrong("zero-2", "overwritten", ("unit.gradients += shard", "unit.gradients.copy_(shard)"),
          at="accumulation/last-only", says="earlier ones are gone"),
    wrong("zero-2", "window kept", ("unit.gradients += shard", "unit.gradients = shard"), at="ownership/window-kept",
          says="window"),
    wrong("zero-2", "bucket kept", ("unit.take_bucket()", "unit.bucket"), at="ownership/bucket-kept", says="bucket"),
    wrong("zero-2", "whole kept", ("unit.gradients += shard", "unit.gradients = bucket.clone()"),
          at="ownership/whole-kept", says="N times"),
    wrong("zero-2", "other part", ("unit.part(bucket)", "bucket.chunk(unit.ranks)[unit.rank - 1]"),
          (REDUCE_2, "    dist.all_reduce(bucket, op=dist.ReduceOp.AVG, group=unit.group)\n"),
          at="gradients/other-shard", says="another rank's part"),
    wrong("zero-2", "nothing kept", ("unit.gradients += shard", "pass"), at="gradients/nothing", says="zero"),
    wrong("zero-2", "float32", ("unit.gradients += shard", "unit.gradients = unit.gradients.float() + shard.float()"),
          at="shape/dtype", says="float32"),
    wrong("zero-2", "unused bucket", ("unit.take_bucket()", "unit.bucket"),
          ("unit.gradients += shard", "unit.gradients += shard\n    unit.bucket = None"),
          at="unused/raised", says="NoneType"),
    wrong("zero-3", "sum", (AVG, SUM), at="gradients/sum", says="2 times too large"),
    wrong("zero-3", "no all-gather", (GATHER_3, "        unit.whole.zero_()\n"),
          at="forward/wrong-values-forward", says="not the model"),
    wrong("zero-3", "no bytes and values in backward", ("        self.before_forward()\n", "        pass\n"),
          at="ownership/not-gathered-backward", says="second time"),
    wrong("zero-3", "no windows", ("p.data = window", "pass"),
          at="ownership/not-gathered-forward", says="before_forward"),
    wrong("zero-3", "never freed", (RESIZE_3, ""), at="ownership/kept-forward", says="still in memory"),
    wrong("zero-3", "not freed in backward", ("        self.after_forward()\n", ""), at="ownership/kept-backward",
          says="second time"),
    wrong("zero-3", "new buffer", ("unit.whole.untyped_storage().resize_(unit.padded * unit.whole.itemsize)",
                                   "unit.whole = unit.whole.new_empty(unit.padded)"),
          at="ownership/other-storage", says="new buffer"),
    wrong("zero-3", "no reduce", (REDUCE_3, ""), at="gradients/own", says="own gradients"),
    wrong("zero-3", "overwritten", ("self.unit.gradients += shard", "self.unit.gradients.copy_(shard)"),
          at="accumulation/last-only", says="last micro-batch"),
    wrong("zero-3", "stale in backward", ("        self.before_forward()\n",
                                          "        unit = self.unit\n"
                                          "        unit.whole.untyped_storage().resize_(unit.padded * 8)\n"
                                          "        unit.whole.zero_()\n"
                                          "        for p, w in zip(unit.parameters, unit.windows(unit.whole)):\n"
                                          "            p.data = w\n"),
          at="forward/wrong-values-backward", says="rubbish"),
    wrong("data-parallel", "sum", (AVG, SUM), at="gradients/sum", says="SUM"),
    wrong("data-parallel", "not put back", ("p.grad = mean.view_as(p)", "pass"), at="gradients/own", says="own"),
    wrong("data-parallel", "flat", ("mean.view_as(p)", "mean"), at="shape/raised", says="RuntimeError"),
    wrong("data-parallel", "last bucket forgotten", ("for bucket in buckets:", "for bucket in buckets[:-1]:"),
          at="gradients/own", says="last bucket"),
    wrong("data-parallel", "unused keep None", ("            p.grad = mean.view_as(p)",
          "            if p.grad is not None:\n                p.grad = mean.view_as(p)"),
          at="unused/missing", says="not a tensor"),
    wrong("ring-all-reduce", "one turn short", ("2 * (ranks - 1)", "2 * (ranks - 1) - 1"), at="two-ranks/partial",
          says="missing"),
    wrong("ring-all-reduce", "adds always", ("incoming.copy_(space)", "incoming += space"), at="two-ranks/twice",
          says="more than once"),
    wrong("ring-all-reduce", "mean",
          ("            incoming.copy_(space)", "            incoming.copy_(space)\n    buffer /= ranks"),
          at="two-ranks/mean", says="2 times too small"),
    wrong("ring-all-reduce", "other tensor", ("    chunks = ", "    buffer = buffer.clone()\n    chunks = "),
          ("            incoming.copy_(space)", "            incoming.copy_(space)\n    return buffer"),
          at="two-ranks/returned", says="another tensor"),
    wrong("ring-all-reduce", "equal chunks only", ("buffer.tensor_split(ranks)",
                                                   "buffer[: buffer.numel() // ranks * ranks].tensor_split(ranks)"),
          at="uneven/partial", says="missing: 1, 2, 3"),
    wrong("model-states", "no master weights", ("4 if precision == \"bf16\" else 0", "0"),
          at="optimizer-states/no-master", says="master weights are missing"),
    wrong("model-states", "floats", ("(adam + master) * parameters", "(adam + master) * parameters / 1"),
          at="shape/not-whole", says="float"),
    wrong("model-states", "bits", ("\"parameters\": value", "\"parameters\": 8 * value"),
          at="parameters/bits", says="bits"),
    wrong("model-states", "gradients in fp32", ("\"gradients\": value", "\"gradients\": 4"),
          at="gradients/bf16-as-fp32",
          says="size in fp32"),
    wrong("model-states", "no return", ("return {", "answer = {"), at="shape/not-a-dict", says="None"),
]  # fmt: skip


def key(verdict: Verdict) -> tuple[object, ...]:
    return verdict.passed, verdict.points, verdict.failed_at, verdict.rank, verdict.message


@pytest.mark.parametrize("id", IDS)
def test_versions_of_the_code(id: str) -> None:
    own = exercise(id)
    solution = check(id, own.folder / "solution.py")
    assert (solution.passed, solution.points, solution.failed_at) == (True, own.of, None), solution.message
    stub = check(id, own.folder / "stub.py")
    assert (stub.failed_at, stub.points) == ("file/unwritten", 0)
    assert own.unwritten in stub.message
    faded = check(id, own.folder / "faded.py")
    assert not faded.passed
    assert faded.failed_at != "file/unwritten"
    broken = check(id, own.folder / "broken.py", patience=4)
    assert broken.failed_at == own.broken, broken.message
    assert 0 <= faded.points < own.of
    assert 0 <= broken.points < own.of


@pytest.mark.parametrize("case", WRONG, ids=lambda case: f"{case.exercise}-{case.name.replace(' ', '-')}")
def test_wrong_answers(case: Wrong) -> None:
    verdict = check(case.exercise, case.source, patience=5)
    assert verdict.failed_at == case.failed_at, verdict.message
    assert case.says in verdict.message
    assert not verdict.passed
    assert verdict.points < verdict.of


def test_zero_exercises_have_six_wrong_answers_each() -> None:
    for id in ("zero-1", "zero-2", "zero-3"):
        assert sum(case.exercise == id for case in WRONG) >= 6


def test_more_traffic_than_needed_is_told_and_costs_nothing() -> None:
    source = (
        exercise("zero-1")
        .code("solution")
        .replace(REDUCE_1, "        dist.all_reduce(unit.gradients, op=dist.ReduceOp.AVG, group=unit.group)\n")
    )
    verdict = check("zero-1", source)
    assert verdict.passed
    assert verdict.points == verdict.of
    assert "half the traffic" in verdict.message


def test_ready_made_collective_is_told() -> None:
    source = (
        "import torch.distributed as dist\n"
        "def ring_all_reduce(buffer, *, group):\n    dist.all_reduce(buffer, group=group)\n"
    )
    verdict = check("ring-all-reduce", source)
    assert verdict.passed
    assert "all_reduce" in verdict.message


def test_ten_repeats_give_the_same_verdict() -> None:
    good = exercise("zero-1").folder / "solution.py"
    bad = next(case.source for case in WRONG if case.name == "first unit only")
    assert len({key(check("zero-1", good)) for _ in range(10)}) == 1
    assert len({key(check("zero-1", bad)) for _ in range(10)}) == 1


def test_another_seed_gives_the_same_verdict() -> None:
    seed = 12345
    assert check("zero-3", exercise("zero-3").folder / "solution.py", seed=seed).passed
    assert check("zero-2", exercise("zero-2").folder / "broken.py", seed=seed).failed_at == "accumulation/last-only"
