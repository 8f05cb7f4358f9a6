"""Wrong answers to the exercises of offload and overlap: each fails where it should, in words of what it means."""

from __future__ import annotations

import pytest

from labs.exercises import check
from tests.labs.exercises.test_answers import Wrong, wrong

ADAM = "adam(master, momentum, variance, gradients[window].to(master.dtype), step)"
VALUES = "        values[window] = master.to(values.dtype)\n"
LET_GO = "        room.let_go(window)\n"
WINDOW = "slice(first, min(first + block, elements))"
STATES = "room.states[:, window]"
CALL = "dist.reduce_scatter_single(shard, bucket, op=dist.ReduceOp.AVG, group=unit.group, async_op=True)"
START = f"        work = {CALL}\n"
APPEND = "        self.in_flight.append((unit, shard, work))\n"
WAIT = "            work.wait()\n"
ADD = "            unit.gradients += shard\n"
CLEAR = "        self.in_flight.clear()\n"

WRONG = [
    wrong("offload-update", "gradients as they are", (".to(master.dtype)", ""), at="shape/adam-given", says="float32"),
    wrong("offload-update", "no step", (", step)", ", None)"), at="shape/step-given", says="None"),
    wrong("offload-update", "lets go of a number", ("let_go(window)", "let_go(first)"), at="shape/window-given",
          says="int"),
    wrong("offload-update", "all at once", ("elements, block)", "elements, elements)"), (WINDOW, "slice(0, elements)"),
          at="ownership/too-much-in-use", says="48"),
    wrong("offload-update", "never let go", (LET_GO, ""), at="ownership/too-much-in-use", says="let go"),
    wrong("offload-update", "last kept", (LET_GO, "        if window.stop < elements:\n    " + LET_GO),
          at="ownership/kept", says="16 elements"),
    wrong("offload-update", "let go early", (VALUES + LET_GO, LET_GO + VALUES), at="ownership/let-go-early",
          says="back into memory"),
    wrong("offload-update", "copies", (STATES, STATES + ".clone()"),
          (VALUES, VALUES.replace("master", "room.states[0, window]")),
          at="update/nothing-updated", says="copies"),
    wrong("offload-update", "steps counted", (", step)", ", step + first // block)"), at="update/step-counted",
          says="same for every block"),
    wrong("offload-update", "a step too late", (", step)", ", step + 1)"), at="update/step-zero", says="from 1"),
    wrong("offload-update", "last skipped", ("range(0, elements, block)", "range(0, elements - block + 1, block)"),
          at="last-block/last-skipped", says="10 of 42"),
    wrong("offload-update", "last moved back",
          (WINDOW, WINDOW.replace("first,", "min(first, max(0, elements - block)),", 1)),
          at="last-block/updated-twice", says="updated twice"),
    wrong("offload-update", "values forgotten", (VALUES, "        values = master.to(values.dtype)\n"),
          at="update/values-old", says="old parameters"),
    wrong("offload-update", "another state", (VALUES, VALUES.replace("master.to", "momentum.to")),
          at="update/values-wrong", says="no other state"),
    wrong("overlap", "nothing started", (START, "        work = None\n"), (WAIT, ""), at="ownership/nothing-started",
          says="started no collective"),
    wrong("overlap", "started late", (WAIT, WAIT + "            dist.all_reduce(shard.clone(), group=unit.group)\n"),
          at="ownership/started-late", says="when backward is over"),
    wrong("overlap", "blocking", (START, START + "        work.wait()\n"), at="ownership/waited-at-once",
          says="stood still"),
    wrong("overlap", "written in flight", (APPEND, APPEND + "        bucket.zero_()\n"),
          at="ownership/written-in-flight", says="on its way"),
    wrong("overlap", "never waited", (WAIT, ""), at="ownership/never-waited", says="nobody waited"),
    wrong("overlap", "other group", ("group=unit.group, ", ""), at="ownership/other-group", says="another group"),
    wrong("overlap", "read early", (WAIT + "            unit.gradients += shard\n",
          "            unit.gradients += shard\n" + WAIT), at="gradients/read-early", says="before it had arrived"),
    wrong("overlap", "not added", (ADD, ""), at="gradients/nothing", says="zero"),
    wrong("overlap", "sum", ("ReduceOp.AVG", "ReduceOp.SUM"), at="gradients/sum", says="2 times too large"),
    wrong("overlap", "overwritten", ("gradients += shard", "gradients.copy_(shard)"), at="accumulation/last-only",
          says="this micro-batch only"),
    wrong("overlap", "never emptied", (CLEAR, ""), at="gradients/added-again", says="once more"),
    wrong("overlap", "a list of it", ("unit.gradients += shard", "unit.gradients = [shard]"), at="shape/gradients-type",
          says="list"),
]  # fmt: skip


@pytest.mark.parametrize("answer", WRONG, ids=lambda each: f"{each.exercise}, {each.name}")
def test_a_wrong_answer_hears_what_it_means(answer: Wrong) -> None:
    verdict = check(answer.exercise, answer.source, patience=6.0)
    assert verdict.failed_at == answer.failed_at, verdict.message
    assert answer.says in verdict.message
