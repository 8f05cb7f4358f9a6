"""Each wrong alarm fails where it should, and is told what its silence or its verdict means."""

from __future__ import annotations

import pytest

from labs.exercises import check, exercise
from tests.labs.exercises.test_answers import Wrong, wrong

GATHER = "    dist.all_gather_single(whole, own, group=group)\n"
USUAL = "norms[norms.isfinite()].median()"
BELOW = " & (norms >= usual / 10)"
SOUND = f"sound = (norms <= 10 * usual){BELOW}"
RANK = "int((~sound).int().argmax())"
SLOW = 'return ("straggler", int(slow.int().argmax())) if slow.any() else None'

WRONG = [
    wrong("alarms", "a word", (SLOW, 'return "straggler"'), at="shape/no-verdict", says="returns str"),
    wrong("alarms", "a rank as a tensor", (RANK, "(~sound).int().argmax()"),
          at="shape/no-verdict", says="returns (str, tensor"),
    wrong("alarms", "another word", ("bad-gradient", "bad gradient"), at="shape/no-verdict", says="'bad gradient'"),
    wrong("alarms", "only where it is", ("return \"bad-gradient\", int((~sound).int().argmax())",
          "return (\"bad-gradient\", dist.get_rank(group)) if not sound[dist.get_rank(group)] else None"),
          at="agreement/disagree", says="rank 0 says"),
    wrong("alarms", "a factor too small", ("10 * usual", "1.2 * usual"), at="silence/false-alarm", says="every night"),
    wrong("alarms", "the mean, above only", (USUAL, "norms.mean()"), (BELOW, " | norms.isnan()"),
          at="bad-gradient/silent-large", says="more than N times the mean"),
    wrong("alarms", "the mean", (USUAL, "norms.mean()"), at="bad-gradient/other-rank", says="Against a mean"),
    wrong("alarms", "the mean and the largest", (USUAL, "norms.mean()"), (RANK, "int(norms.argmax())"),
          at="bad-gradient/silent-near", says="hides it"),
    wrong("alarms", "above only", (BELOW, ""), at="bad-gradient/silent-small", says="the other side"),
    wrong("alarms", "infinite is left out", (SOUND, SOUND + "\n    sound |= norms.isinf()"),
          at="not-finite/silent-infinite", says="infinite"),
    wrong("alarms", "bad instead of sound", (SOUND, "sound = ~((norms > 10 * usual) | (norms < usual / 10))"),
          at="not-finite/silent-nan", says="comparison with it is"),
    wrong("alarms", "the mean of the seconds", ("times.median()", "(2 * times.mean())"),
          at="straggler/silent-slow", says="4 times as long"),
    wrong("alarms", "time first", ("if not sound.all():", "if (times > 1.1 * times.median()).any():"),
          at="silence/false-alarm", says="alarm says"),
    wrong("alarms", "a straggler for a gradient", ('return "bad-gradient"', 'return "straggler"'),
          at="bad-gradient/other-kind", says="something else is wrong"),
    wrong("alarms", "the largest", (RANK, "int(norms.argmax())"),
          at="bad-gradient/other-rank", says="which is sound"),
]  # fmt: skip


@pytest.mark.parametrize("each", WRONG, ids=[each.name for each in WRONG])
def test_a_wrong_alarm_is_told_what_it_misses(each: Wrong) -> None:
    verdict = check("alarms", each.source)
    assert not verdict.passed
    assert verdict.failed_at == each.failed_at, verdict.message
    assert each.says in verdict.message


def test_every_text_is_told_to_somebody() -> None:
    assert {each.failed_at.split("/")[1] for each in WRONG} == set(exercise("alarms").failures)


def test_an_alarm_that_costs_more_than_it_must_is_right_and_told_so() -> None:
    code = exercise("alarms").code("solution")
    given = code.replace(GATHER, GATHER + GATHER)
    verdict = check("alarms", given)
    assert verdict.passed
    assert "next\nto nothing" in verdict.message or "next to nothing" in verdict.message
