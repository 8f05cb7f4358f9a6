"""Each wrong answer about shards and the next example fails where it should, and hears what it means."""

from __future__ import annotations

import pytest

from labs.exercises import check, exercise
from tests.labs.exercises.test_answers import Wrong, wrong

ENTRY = "(name, first - begin, last - first, first - low)"
OVERLAP = "first, last = max(begin, low), min(begin + size, high)"
MINE = "first + rank * share, first + (rank + 1) * share"
PLACE = "order(place // size)[place % size]"
AFTER = '"consumed": first + progress["global_batch"]'

# fmt: off
WRONG = [
    wrong("sharded-checkpoint", "nothing returned", ("return found", "return None"), at="form/not-a-list", says="None"),
    wrong("sharded-checkpoint", "padding named", ("return found", "return [*found, ('padding', 0, 1, 0)]"),
          at="form/no-such-parameter", says="padding has none"),
    wrong("sharded-checkpoint", "no condition", ("if first < last:", "if True:"), at="cut/empty", says="no entry"),
    wrong("sharded-checkpoint", "an entry twice", ("return found", "return found + found[:1]"), at="cut/twice",
          says="one stretch"),
    wrong("sharded-checkpoint", "whole parameters",
          (OVERLAP, "first, last = (begin, begin + size) if low <= begin < high else (0, 0)"), at="cut/whole",
          says="does not hand out"),
    wrong("sharded-checkpoint", "in the buffer", ("first - begin, last - first", "first, last - first"),
          at="cut/from-the-buffer", says="own beginning"),
    wrong("sharded-checkpoint", "to the end of the shard", ("min(begin + size, high)", "high"), at="cut/past-the-end",
          says="`min`"),
    wrong("sharded-checkpoint", "ranks from behind",
          ("rank * width, (rank + 1)", "(ranks - 1 - rank) * width, (ranks - rank)"),
          at="cut/foreign", says="would be wrong"),
    wrong("sharded-checkpoint", "swapped", (ENTRY, "(name, first - low, last - first, first - begin)"),
          at="cut/swapped", says="changed places"),
    wrong("sharded-checkpoint", "rounded down", ("-(-sum(sizes.values()) // ranks)", "sum(sizes.values()) // ranks"),
          at="padding/floor", says="rounds up"),
    wrong("sharded-checkpoint", "here in the buffer", ("first - low))", "first))"), at="cut/place",
          says="this rank's shard"),
    wrong("sharded-checkpoint", "one less", ("min(begin + size, high)", "min(begin + size - 1, high)"),
          at="cut/elements", says="the earlier of the two ends"),
    wrong("sharded-checkpoint", "small ones left out", ("if first < last:", "if last - first > 1:"), at="cut/missing",
          says="would be missing"),
    wrong("resume", "no progress", ("return mine, {", "return {"), at="form/not-a-pair", says="a pair is needed"),
    wrong("resume", "the rank in it", (AFTER, AFTER + ', "rank": rank'), at="form/progress-differs",
          says="One rank writes"),
    wrong("resume", "unequal shares",
          (MINE, "first + (rank * share + 1 if rank else 0), first + (rank + 1) * share + (rank == 0)"),
          at="examples/uneven", says="unequal shares"),
    wrong("resume", "the same on all", (MINE, "first, first + share"), at="examples/same-on-all",
          says="times the work"),
    wrong("resume", "the share kept",
          ('progress["global_batch"] // ranks', 'progress.setdefault("share", progress["global_batch"] // ranks)'),
          at="other-ranks/batch-changed", says="that is what must stay"),
    wrong("resume", "one less", ("(rank + 1) * share", "(rank + 1) * share - 1"), at="examples/batch-size",
          says="the global batch is 12"),
    wrong("resume", "not counted", (AFTER, '"consumed": first'), at="examples/again", says="once more"),
    wrong("resume", "always the first epoch", ("order(place // size)", "order(0)"), at="epochs/same-order",
          says="first epoch"),
    wrong("resume", "an epoch for a step", ("order(place // size)", "order(first // size)"), at="epochs/border",
          says="its own epoch"),
    wrong("resume", "a slice of one epoch",
          (f"[{PLACE} for place in places]", "order(places[0] // size)[places[0] % size :][:share]"),
          at="epochs/stops-at-border", says="A slice ends"),
    wrong("resume", "the end of an epoch dropped",
          ("    places =", "    if first % size + progress['global_batch'] > size:\n"
           "        first = -(-first // size) * size\n    places ="),
          at="epochs/epoch-begins-anew", says="never be seen"),
    wrong("resume", "counted for a rank",
          ('first, share = progress["consumed"]', 'first, share = progress["consumed"] * ranks'),
          (AFTER, '"consumed": progress["consumed"] + share'), at="other-ranks/per-rank", says="one rank's share"),
    wrong("resume", "one further", (PLACE, "order(place // size)[(place + 1) % size]"), at="examples/others",
          says="Not their turn"),
]
# fmt: on


@pytest.mark.parametrize("given", WRONG, ids=lambda given: f"{given.exercise}-{given.name}")
def test_a_wrong_answer_is_told_what_it_means(given: Wrong) -> None:
    verdict = check(given.exercise, given.source)
    assert not verdict.passed
    assert verdict.failed_at == given.failed_at
    assert given.says in verdict.message


def test_every_text_of_a_failure_is_told_to_someone() -> None:
    for id in ("sharded-checkpoint", "resume"):
        told = {given.failed_at.split("/")[1] for given in WRONG if given.exercise == id}
        assert told == set(exercise(id).failures)
