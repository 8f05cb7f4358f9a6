"""The exercise on DeepSpeed's batch equation: every wrong answer is told apart."""

import pytest

from labs.exercises import check, exercise

LAST = """    return {
        "train_batch_size": train,
        "train_micro_batch_size_per_gpu": micro,
        "gradient_accumulation_steps": steps,
    }"""
TEST = "    if train != micro * steps * ranks:\n"
WRONG = [
    (LAST, "    return train, micro, steps", "shape/not-a-dict", "tuple"),
    ('        "gradient_accumulation_steps": steps,\n', "", "shape/no-key", "gradient_accumulation_steps"),
    ("train // (micro * ranks)", "train / (micro * ranks)", "shape/not-whole", "float"),
    ("        steps = 1\n", "        raise ValueError\n", "solved/refused", "There is a solution"),
    (TEST, "    if False:\n", "refused/not-refused", "Test the equation"),
    (TEST, "    train = micro * steps * ranks\n    if False:\n", "refused/not-refused", "raise ValueError"),
    (
        LAST,
        LAST.replace("steps,", "config.get('x', steps),").replace("micro,", "1,"),
        "solved/changed",
        "What is given stays",
    ),
    ("        steps = 1\n", "        steps = 2\n", "solved/other", "it is 1"),
]


@pytest.mark.parametrize(("old", "new", "at", "says"), WRONG)
def test_wrong_answers(old: str, new: str, at: str, says: str) -> None:
    code = exercise("batch-equation").code("solution")
    assert old in code
    verdict = check("batch-equation", code.replace(old, new), "en")
    assert (verdict.failed_at, verdict.passed) == (at, False), verdict.message
    assert says in verdict.message


def test_the_broken_case_forgets_the_ranks() -> None:
    verdict = check("batch-equation", exercise("batch-equation").code("broken"), "en")
    assert verdict.failed_at == "solved/without-ranks"
    assert "the number of ranks is a factor too" in verdict.message
