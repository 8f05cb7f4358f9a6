"""The exercise on the cache of keys and values: each wrong answer gets the text that is meant for it."""

from __future__ import annotations

import pytest

from labs.exercises import check, exercise

WRITE = "        self.keys[:, :, self.seen] = k_BhK\n        self.values[:, :, self.seen] = v_BhK\n"
LOOK = "self.keys[:, :, : self.seen], self.values[:, :, : self.seen]"
WRONG = [
    ("self.keys", "self.held", "shape/no-cache"),
    ("return y_BD + self.out_bias", "self.y = y_BD", "shape/no-output"),
    ("part.chunk(ranks)[rank]", "part.chunk(ranks)[rank - 1]", "ownership/other-heads"),
    (WRITE, WRITE.replace("self.seen", "0"), "ownership/one-place"),
    (WRITE, "", "ownership/nothing-kept"),
    (WRITE, WRITE.replace("self.seen", "self.seen + 1"), "ownership/differs"),
    (LOOK, "self.keys, self.values", "forward/unfilled"),
    (LOOK, "k_BhK[:, :, None], v_BhK[:, :, None]", "forward/alone"),
    (LOOK, LOOK.replace(": self.seen", ": max(1, self.seen - 1)"), "forward/without-itself"),
    ("        dist.all_reduce(y_BD, group=self.group)\n", "", "forward/partial"),
    ("self.out_weight)", "self.out_weight, self.out_bias)", "forward/differs"),
    (" + self.out_bias", "", "forward/bias-missing"),
    (" + self.out_bias", " + self.out_bias * dist.get_world_size(self.group)", "forward/bias-times"),
]
WHOLE = """
class CachedAttention:
    def __init__(self, qkv, out, *, heads, sequences, room, group):
        self.qkv, self.out, self.heads, self.seen = qkv, out, heads, 0
        self.keys = qkv.weight.detach().new_zeros(sequences, heads, room, qkv.in_features // heads)
        self.values = torch.zeros_like(self.keys)

    def step(self, x_BD):
        q, k, v = (part.reshape(len(x_BD), self.heads, -1) for part in self.qkv(x_BD).chunk(3, -1))
        self.keys[:, :, self.seen], self.values[:, :, self.seen] = k, v
        self.seen += 1
        kept = self.keys[:, :, : self.seen], self.values[:, :, : self.seen]
        return self.out(F.scaled_dot_product_attention(q.unsqueeze(2), *kept).flatten(1))
"""


@pytest.mark.parametrize(("old", "new", "failed_at"), WRONG)
def test_a_wrong_answer_is_told_what_is_wrong(old: str, new: str, failed_at: str) -> None:
    code = exercise("kv-cache").code("solution")
    assert old in code
    verdict = check("kv-cache", code.replace(old, new), patience=4)
    assert verdict.failed_at == failed_at, verdict.message


def test_who_keeps_all_heads_hears_so() -> None:
    imports = exercise("kv-cache").code("solution").partition("class ")[0]
    assert check("kv-cache", imports + WHOLE).failed_at == "ownership/all-heads"


def test_more_traffic_than_needed_costs_no_points() -> None:
    line = "        dist.all_reduce(y_BD, group=self.group)\n"
    code = exercise("kv-cache").code("solution")
    wasteful = line + "        dist.all_reduce(self.keys.clone(), group=self.group)\n"
    verdict = check("kv-cache", code.replace(line, wasteful))
    assert verdict.passed
    assert "Keys and values never leave their rank" in verdict.message
