"""Every way in which a rank can break a run: the message names rank, operation, step, the rule and what to do next."""

import re
import time
from dataclasses import dataclass

import pytest

import translations
from labs import runner
from translations import CourseError

TRAINING = """
import os, sys, time
import torch
import torch.distributed as dist
from labs.runner import rank as this

def trouble(step, rank, x):
    {trouble}

with this.group() as group:
    x = torch.ones(4)
    for step in range(10):
        this.step(step)
        trouble(step, this.number(), x)
        dist.all_reduce(x, group=group)
    this.report("done")
"""
SUM = "all_reduce SUM float32 [4]"


@dataclass(frozen=True, kw_only=True)
class Case:
    trouble: str
    kind: str
    operation: str = SUM
    rank: int = 1
    step: int = 7
    says: str = ""
    shows: str = ""
    timeout: float = 6.0


AT_7 = "if rank == 1 and step == 7: "
CASES = {
    "raises": Case(
        trouble=AT_7 + "x.reshape(3)",
        kind="raised",
        says=r"Rank 1 raised an error at step 7:\nRuntimeError: shape '\[3\]' is invalid for input of size 4\n",
        shows='  File "cell", line 8, in trouble\n    if rank == 1 and step == 7: x.reshape(3)\n',
    ),
    "raises on every rank": Case(
        trouble="if step == 7: raise KeyError('lr')",
        kind="raised",
        rank=0,
        says="Ranks 0, 1, 2 raised the same error; on rank 0 it came at step 7:\nKeyError: 'lr'\n",
        shows="KeyError: 'lr'",
    ),
    "raises from another error": Case(
        trouble="""
    try:
        assert not (rank == 1 and step == 7)
    except AssertionError as error:
        raise ValueError("wrong") from error""",
        kind="raised",
        says="ValueError: wrong",
        shows="The above exception was the direct cause",
    ),
    "reports no JSON": Case(
        trouble=AT_7 + "this.report(object())", kind="raised", says="no JSON value", shows="this.report(object())"
    ),
    "is gone": Case(trouble=AT_7 + "os._exit(3)", kind="died", says="ended at step 7 with exit code 3"),
    "exits": Case(trouble=AT_7 + "sys.exit('no data')", kind="died", says="exit code 1", shows="no data"),
    "is killed": Case(trouble=AT_7 + "os.kill(os.getpid(), 9)", kind="died", says="SIGKILL.*no memory left"),
    "crashes": Case(
        trouble=AT_7 + "__import__('ctypes').string_at(0)",
        kind="died",
        says=r"crashed at step 7 \(SIGSEGV\)",
        shows='File "cell", line 8, in trouble',
    ),
    "leaves early": Case(
        trouble=AT_7 + "sys.exit()",
        kind="hung",
        says="while others still waited",
        shows="dist.all_reduce(x, group=group)",
    ),
    "loops": Case(
        trouble="while rank == 1 and step == 7: pass",
        kind="hung",
        says=r"Rank 1 never joined all_reduce SUM float32 \[4\].*waiting: 0, 2.*at step 7, in cell:8",
        shows="while rank == 1 and step == 7: pass",
    ),
    "sleeps": Case(trouble=AT_7 + "time.sleep(99)", kind="hung", says="never joined", shows="time.sleep(99)"),
    "all loop": Case(
        trouble="while step == 7: pass",
        kind="hung",
        rank=0,
        timeout=1.5,
        says="ended after 1.5 s. Rank 0 was at step 7, in cell:8",
    ),
    "skips one": Case(
        trouble="""
    if step == 7:
        dist.all_reduce(torch.ones(2)) if rank != 1 else None""",
        kind="mismatch",
        says=r"Rank 1 and rank 0 disagree at step 7 in call 8.*rank 1 called all_reduce SUM float32 \[4\],"
        r" rank 0 called all_reduce SUM float32 \[2\]",
    ),
    "calls another": Case(
        trouble=AT_7 + "dist.barrier()",
        kind="mismatch",
        operation="barrier",
        says="met in different collectives at step 7: rank 1 called barrier, rank 0 called all_reduce",
        shows="dist.barrier()",
    ),
    "has another shape": Case(
        trouble=AT_7 + "x.resize_(5)",
        kind="mismatch",
        operation="all_reduce SUM float32 [5]",
        says=r"float32 \[5\].*float32 \[4\].*same operation, dtype and shape",
    ),
    "has another dtype": Case(
        trouble=AT_7
        + "dist.all_reduce(torch.ones(4, dtype=torch.float64)), exit()\n    if step == 7: dist.all_reduce(x)",
        kind="mismatch",
        operation="all_reduce SUM float64 [4]",
        says="float64.*float32",
    ),
    "gathers another shape": Case(
        trouble="if step == 7: dist.all_gather_single(torch.ones(15), torch.ones(6 if rank == 1 else 5))",
        kind="mismatch",
        operation="all_gather float32 [6]",
        says=r"\[6\].*\[5\]",
    ),
    "nobody sends": Case(
        trouble="if step == 7: dist.recv(x, src=(rank + 1) % 3)",
        kind="hung",
        rank=0,
        operation="receive from 1 float32 [4]",
        says="All ranks wait for each other",
        shows="rank 1: receive from 2 float32 [4]  (cell:8)",
    ),
    "all send first": Case(
        trouble="if step == 7: dist.send(torch.ones(20_000_000), dst=(rank + 1) % 3)",
        kind="hung",
        rank=0,
        operation="send to 1 float32 [20000000]",
        says="A send needs its receive",
    ),
    "sends another shape": Case(
        trouble="""
    if step == 7 and rank == 0: dist.send(torch.ones(3), dst=1)
    if step == 7 and rank == 1: dist.recv(torch.ones(2), src=0)""",
        kind="mismatch",
        operation="receive from 0 float32 [2]",
        says=r"send to 1 float32 \[3\]",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_message_names_rank_operation_and_step(name: str) -> None:
    case = CASES[name]
    begun = time.monotonic()
    with pytest.raises(runner.RankFailed) as caught:
        runner.run(TRAINING.format(trouble=case.trouble), ranks=3, timeout=case.timeout, patience=1.5)
    error = caught.value
    assert (error.kind, error.rank, error.operation, error.step) == (case.kind, case.rank, case.operation, case.step), (
        error
    )
    assert re.search(case.says, str(error), re.DOTALL), str(error)
    assert case.shows in error.rank_traceback
    assert "site-packages" not in error.rank_traceback
    assert time.monotonic() - begun < case.timeout + 3


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("x = (1,", "SyntaxError: '(' was never closed"),
        ("import no_such_module", "No module named 'no_such_module'"),
        ("def f(): f()\nf()", "RecursionError"),
        ("raise BaseException('x' * 10**6)", "BaseException: xxx"),
        ("class Odd(Exception):\n    __str__ = None\nraise Odd", "Odd"),
    ],
)
def test_a_script_that_cannot_run(script: str, says: str) -> None:
    with pytest.raises(runner.RankFailed) as caught:
        runner.run(script, ranks=2, name="cell 12")
    assert (caught.value.kind, caught.value.rank, caught.value.step) == ("raised", 0, -1)
    assert says in str(caught.value)
    assert 'File "cell 12", line ' in caught.value.rank_traceback
    assert "outside any numbered step" in str(caught.value)
    assert len(str(caught.value)) < 60_000


def test_a_rank_that_never_joins_the_group() -> None:
    script = """
import time
from labs.runner import rank
if rank.number() == 1:
    time.sleep(60)
with rank.group():
    pass
"""
    with pytest.raises(runner.RankFailed, match="Rank 1 never joined init_process_group"):
        runner.run(script, ranks=2, patience=1.5)


def test_a_collective_that_nobody_waited_for_is_missed_too() -> None:
    script = """
import time
import torch, torch.distributed as dist
from labs.runner import rank
with rank.group():
    dist.barrier()
    if rank.number() == 0:
        dist.all_reduce(torch.ones(2), async_op=True)
    time.sleep(0.5)
"""
    with pytest.raises(runner.RankFailed) as caught:
        runner.run(script, ranks=2)
    assert (caught.value.kind, caught.value.rank) == ("mismatch", 1)
    assert caught.value.operation == "all_reduce SUM float32 [2]"


@pytest.mark.parametrize(
    ("trouble", "kind", "says"),
    [
        ("while True: pass", "hung", "never joined a collective that torch itself called"),
        ("sys.exit()", "hung", "while others still waited for it in a collective that torch itself called"),
        ("1 / 0", "raised", "ZeroDivisionError"),
    ],
)
def test_collectives_of_ddp_are_bounded_too(trouble: str, kind: str, says: str) -> None:
    script = f"""
import sys
import torch
from torch.nn.parallel import DistributedDataParallel
from labs.runner import rank
with rank.group():
    model = DistributedDataParallel(torch.nn.Linear(4, 4))
    for step in range(4):
        rank.step(step)
        if step == 2 and rank.number() == 1:
            {trouble}
        model(torch.ones(2, 4)).sum().backward()
"""
    with pytest.raises(runner.RankFailed) as caught:
        runner.run(script, ranks=2, patience=1.0)
    assert (caught.value.kind, caught.value.rank, caught.value.step) == (kind, 1, 2)
    assert says in str(caught.value)


def test_what_works_is_no_failure() -> None:
    script = """
import torch, torch.distributed as dist
from labs.runner import rank
with rank.group() as group:
    me, n = rank.number(), rank.world_size()
    x = torch.ones(4 * n)
    for step in range(300):
        dist.all_reduce(x, op=dist.ReduceOp.MAX)
    dist.all_gather([torch.ones(4 * n) for _ in range(n)], x)
    dist.all_gather_single(torch.ones(4 * n * n), x)
    dist.reduce_scatter_single(torch.ones(4), x, op=dist.ReduceOp.AVG)
    dist.reduce_scatter(torch.ones(4), list(x.chunk(n)))
    dist.broadcast(x, src=n - 1)
    dist.reduce(x, dst=0)
    dist.gather(x, [torch.ones(4 * n) for _ in range(n)] if me == 0 else None, dst=0)
    dist.scatter(torch.ones(4), list(x.chunk(n)) if me == 0 else None, src=0)
    dist.all_to_all_single(torch.ones(4 * n), x)
    splits = [1 + (me + other) % 2 for other in range(n)]
    dist.all_to_all_single(torch.ones(sum(splits)), torch.ones(sum(splits)), splits, splits)
    dist.all_gather_object([None] * n, {"rank": me})
    pending = dist.all_reduce(x, async_op=True)
    pending.wait()
    ring = [dist.P2POp(dist.isend, x, (me + 1) % n), dist.P2POp(dist.irecv, torch.ones(4 * n), (me - 1) % n)]
    for work in dist.batch_isend_irecv(ring):
        work.wait()
    part = dist.new_group([0, 1])
    if me < 2:
        dist.all_reduce(torch.ones(3), group=part)
    else:
        dist.all_reduce(torch.ones(3), group=dist.new_group([2], use_local_synchronization=True))
    try:
        dist.all_reduce(torch.ones(3, dtype=torch.complex64), op=dist.ReduceOp.MAX)
    except ValueError:
        pass
    dist.barrier()
    rank.report(x.sum())
"""
    run = runner.run(script, ranks=3)
    assert all(isinstance(each.value, float) for each in run.ranks)


def test_the_learner_reads_it_in_their_language() -> None:
    with pytest.raises(runner.RankFailed) as caught:
        runner.run(TRAINING.format(trouble=CASES["raises"].trouble), ranks=2)
    for code in ("nl", "ar"):
        told = caught.value.in_language(translations.translator(code))
        assert told != str(caught.value)
        assert told.endswith(caught.value.rank_traceback.rstrip())
        assert caught.value.message(translations.translator(code)) in told


def test_an_error_of_the_course_in_a_rank_is_translated_too() -> None:
    with pytest.raises(runner.RankFailed) as caught:
        runner.run(TRAINING.format(trouble=CASES["reports no JSON"].trouble), ranks=2)
    nested = caught.value.values["error"]
    assert isinstance(nested, CourseError)
    text = translations.translator("nl")
    assert nested.in_language(text) in caught.value.message(text)


def test_only_the_rank_that_failed_prints_its_traceback() -> None:
    """Those that lost it would say no more than that; it is kept."""
    with pytest.raises(runner.RankFailed) as left:
        runner.run(TRAINING.replace("{trouble}", AT_7 + "os.close(1), os._exit(0)"), ranks=2)
    assert left.value.outputs == ("", "")
    assert "onnection" in left.value.full_traceback
    with pytest.raises(runner.RankFailed) as raised:
        runner.run(TRAINING.replace("{trouble}", AT_7 + "x.reshape(3)"), ranks=2)
    assert "Traceback" not in raised.value.outputs[0]
    assert "x.reshape(3)" in raised.value.outputs[1]
