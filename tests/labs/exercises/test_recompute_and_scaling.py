"""Each wrong answer about recomputation and loss scaling fails where it should, and hears what it means."""

from __future__ import annotations

import pytest

from labs.exercises import check, exercise
from tests.labs.exercises.test_answers import Wrong, wrong

REDUCE = "        dist.all_reduce(overflow, op=dist.ReduceOp.MAX, group=self.group)\n"
DIVIDE = "            gradient /= self.scale\n"
HALVE = "            self.scale, self.good = self.scale / 2, 0\n"
UPDATE = "        update(gradients)\n"
DOUBLE = "self.scale, self.good = self.scale * 2, 0"

WRONG = [
    wrong("recompute", "no graph", ("return function(x)\n", "return function(x).detach()\n"), at="gradients/no-graph",
          says="learn nothing"),
    wrong("recompute", "nothing forgotten", ("with saved_tensors_hooks(pack, unpack):", "if True:"),
          at="ownership/ran-once", says="run again"),
    wrong("recompute", "kept as well", ("        saved += 1\n", "        saved += 1\n        hoard.append(_)\n"),
          ("    saved = 0\n", "    saved, hoard = 0, []\n"), at="ownership/kept", says="beside `x`"),
    wrong("recompute", "once for each tensor", ("        if not again:\n            run_again()\n",
                                                "        again.clear()\n        run_again()\n"),
          at="ownership/ran-often", says="twice is enough"),
    wrong("recompute", "weights without a graph",
          ("    with saved_tensors_hooks(pack, unpack):\n        return function(x)",
           "    with torch.no_grad():\n        y = function(x)\n    run_again()\n    return y + x.sum() * 0"),
          at="gradients/parameters-dropped", says="no gradient"),
    wrong("recompute", "input cut off", ("        return function(x)\n", "        return function(x.detach())\n"),
          (".requires_grad_(x.requires_grad)", ""), at="gradients/input-dropped", says="below"),
    wrong("recompute", "no gradient in the second run", (".requires_grad_(x.requires_grad)", ""),
          at="gradients/other-need", says="the `requires_grad` of `x`"),
    wrong("recompute", "always a gradient", (".requires_grad_(x.requires_grad)", ".requires_grad_()"),
          at="leaf/other-need", says="the `requires_grad` of `x`"),
    wrong("recompute", "a second backward",
          ("    with saved_tensors_hooks(pack, unpack):\n        return function(x)",
           "    with saved_tensors_hooks(pack, unpack):\n        y = function(x)\n"
           "    y.register_hook(grads.append)\n    return y"),
          ("    saved = 0\n", "    saved, grads = 0, []\n"),
          ("lambda tensor: again.append(tensor.detach()), lambda none: none)",
           "lambda tensor: again.append(tensor.detach()) or tensor, lambda tensor: tensor)"),
          ("(x.requires_grad))\n", "(x.requires_grad)).backward(grads[0])\n"),
          at="gradients/twice", says="two graphs"),
    wrong("recompute", "other random numbers", ("        torch.set_rng_state(random)\n", ""),
          at="random/other-random-numbers", says="another forward pass"),
    wrong("recompute", "state taken too late", ("    random = torch.get_rng_state()\n", ""),
          ("        torch.set_rng_state(random)\n", "        torch.set_rng_state(now)\n"),
          at="random/other-random-numbers", says="before the first run"),
    wrong("recompute", "state left", ("        torch.set_rng_state(now)\n", ""), at="random/random-after",
          says="after backward"),
    wrong("loss-scaling", "never", ("        if overflow:", "        if not overflow:"), at="update/not-updated",
          says="lost for nothing"),
    wrong("loss-scaling", "twice", (UPDATE, UPDATE + UPDATE),
          at="update/updated-twice", says="2 times"),
    wrong("loss-scaling", "not unscaled", (DIVIDE, "            pass\n"), at="update/not-unscaled",
          says="larger by the"),
    wrong("loss-scaling", "unscaled twice", (DIVIDE, DIVIDE + DIVIDE), at="update/unscaled-twice", says="twice"),
    wrong("loss-scaling", "scaled again", (DIVIDE, "            gradient *= self.scale\n"), at="update/scaled-again",
          says="instead of divided"),
    wrong("loss-scaling", "scale chosen first", (DIVIDE, "            pass\n"), (UPDATE, ""),
          (DOUBLE, DOUBLE + "\n        update([gradient / self.scale for gradient in gradients])"),
          at="update/next-scale", says="at the end"),
    wrong("loss-scaling", "infinite only", ("not all(gradient.isfinite().all() ", "any(gradient.isinf().any() "),
          at="overflow/not-skipped", says="NaN"),
    wrong("loss-scaling", "first gradient only", ("for gradient in gradients)))", "for gradient in gradients[:1])))"),
          at="overflow/not-skipped", says="any of the gradients"),
    wrong("loss-scaling", "each for itself", (REDUCE, ""), at="together/updated-alone", says="together"),
    wrong("loss-scaling", "never halved", (HALVE, ""), at="scale/not-halved", says="half of it"),
    wrong("loss-scaling", "never doubled", (DOUBLE, "pass"), at="scale/not-doubled", says="only ever falls"),
    wrong("loss-scaling", "doubled too often", (DOUBLE, "self.scale, self.good = self.scale * 2, self.interval - 1"),
          at="scale/doubled-early", says="good steps in a row"),
    wrong("loss-scaling", "count goes on", (HALVE, "            self.scale /= 2\n"), at="scale/count-goes-on",
          says="went on"),
    wrong("loss-scaling", "a tenth", (HALVE, "            self.scale, self.good = self.scale / 10, 0\n"),
          at="scale/wrong-scale", says="halved"),
]  # fmt: skip


@pytest.mark.parametrize("answer", WRONG, ids=lambda each: f"{each.exercise}: {each.name}")
def test_a_wrong_answer_hears_what_it_means(answer: Wrong) -> None:
    verdict = check(answer.exercise, answer.source, patience=5)
    assert verdict.failed_at == answer.failed_at, verdict.message
    assert answer.says in verdict.message


@pytest.mark.parametrize("id", ["recompute", "loss-scaling"])
def test_every_text_of_a_failure_is_told_by_some_answer(id: str) -> None:
    told = {answer.failed_at.split("/")[1] for answer in WRONG if answer.exercise == id}
    assert set(exercise(id).failures) <= told


def test_gradients_that_travel_for_one_decision_are_told_and_cost_nothing() -> None:
    code = exercise("loss-scaling").code("solution")
    sent = "        everything = torch.cat(gradients).isfinite().logical_not().double()\n"
    code = code.replace(
        REDUCE, sent + REDUCE.replace("overflow", "everything") + "        overflow = everything.max()\n"
    )
    verdict = check("loss-scaling", code)
    assert verdict.passed, verdict.message
    assert "128 bytes" in verdict.message


def test_a_second_run_that_only_the_garbage_collector_lets_go_is_told_and_costs_nothing() -> None:
    """Two closures that name each other hold what the second run made."""
    verdict = check("recompute", exercise("recompute").code("solution").replace("lambda none: none", "unpack"))
    assert verdict.passed, verdict.message
    assert "garbage collector" in verdict.message
