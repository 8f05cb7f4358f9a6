import gc
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch

from labs import runner
from labs.runner import leader
from labs.runner.client import StartMethod, _servers
from tests.labs.runner.conftest import ROOT
from translations import CourseError

SUM = """
import sys
import torch
import torch.distributed as dist
from labs.runner import rank

with rank.group() as group:
    total = torch.full((3,), float(rank.number() + 1))
    for step in range(3):
        rank.step(step)
        dist.all_reduce(total, group=group)
    rank.report({"total": total, "argv": sys.argv[1:]}, {"total": total})
rank.leave()
"""


@pytest.mark.parametrize("method", ["forkserver", "spawn"])
def test_ranks_run_a_torchrun_script_together(method: StartMethod) -> None:
    run = runner.run(SUM, ranks=2, arguments=["--stage", "2"], start_method=method)
    assert [each.rank for each in run.ranks] == [0, 1]
    assert [each.value for each in run.ranks] == [{"total": [12.0] * 3, "argv": ["--stage", "2"]}] * 2
    assert torch.equal(run.ranks[1].tensors()["total"], torch.full((3,), 12.0))


MEET = """
import time
import torch.distributed as dist
from labs.runner import rank

join = dist.init_process_group
def slowly(*arguments, **named):
    join(*arguments, **named)
    time.sleep(0.5 * rank.number())

dist.init_process_group = slowly
with rank.group():
    begin = time.monotonic()
rank.report(time.monotonic() - begin)
rank.leave()
"""


def test_no_rank_leaves_before_the_slowest_has_joined() -> None:
    assert runner.run(MEET, ranks=2).ranks[0].value > 0.3


@pytest.mark.parametrize("ranks", [1, 3, 4])
def test_any_number_of_ranks(ranks: int) -> None:
    run = runner.run("from labs.runner import rank; rank.report([rank.number(), rank.world_size()])", ranks=ranks)
    assert [each.value for each in run.ranks] == [[rank, ranks] for rank in range(ranks)]


def test_the_same_script_runs_under_torchrun_and_alone(tmp_path: Path) -> None:
    script = tmp_path / "sum.py"
    script.write_text(SUM)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    alone = subprocess.run([sys.executable, script, "x"], env=environment, capture_output=True, text=True, timeout=60)
    assert json.loads(alone.stdout) == {"total": [1.0] * 3, "argv": ["x"]}, alone.stderr
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", script]
    two = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=90)
    assert two.returncode == 0, two.stderr
    assert json.loads(two.stdout) == {"total": [12.0] * 3, "argv": []}, two.stderr


def test_a_rank_sees_what_torchrun_would_show_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "look.py"
    script.write_text(
        "import os, sys\nfrom labs.runner import rank\n"
        "rank.report({'environ': dict(os.environ), 'argv': sys.argv, 'path': sys.path[0], 'name': __name__,"
        " 'cwd': os.getcwd(), 'own_group': os.getpgid(0) == os.getpid(), 'loaded': 'labs.zero' in sys.modules})"
    )
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    monkeypatch.setenv("LEARNERS_OWN", "now")
    seen = runner.run(script, ranks=2, arguments=["a"]).ranks[1].value
    environ = seen["environ"]
    expected = {"RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "LEARNERS_OWN": "now"}
    assert expected.items() <= environ.items()
    assert environ["MASTER_ADDR"] == "127.0.0.1"
    assert environ["TORCHELASTIC_USE_AGENT_STORE"] == "True"
    assert seen["argv"] == [str(script), "a"]
    assert seen["path"] == str(tmp_path)
    assert (seen["name"], seen["cwd"]) == ("__main__", str(tmp_path / "elsewhere"))
    assert seen["own_group"]
    assert not seen["loaded"], "the course's modules must be read afresh, so that an edited one counts"


def test_an_ordinary_script_needs_nothing_of_ours() -> None:
    script = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
x = torch.ones(2)
dist.all_reduce(x)
print("sum", x.tolist())
"""
    assert [each.output for each in runner.run(script, ranks=2).ranks] == ["sum [2.0, 2.0]\n"] * 2


def test_output_comes_while_the_ranks_run(tmp_path: Path) -> None:
    script = f"""
import time
from pathlib import Path
print("waiting")
while not Path({str(tmp_path / "seen")!r}).exists():
    time.sleep(0.01)
"""
    threads = set()

    def seen(_rank: int, line: str) -> None:
        threads.add(threading.current_thread())
        if line == "waiting":
            (tmp_path / "seen").touch()

    runner.run(script, ranks=1, on_output=seen, timeout=20)
    assert threads == {threading.main_thread()}


def test_a_caller_can_look_at_the_folder_while_the_ranks_run() -> None:
    looked = []
    runner.run("import time; time.sleep(0.5)", ranks=1, on_tick=looked.append)
    assert len(looked) >= 3


def test_output_in_any_script_and_in_pieces() -> None:
    script = """
import os, sys
print("Größe", "رُتَب", "🙂")
os.write(1, b"native \\xff\\n")
print("\\ud800")
print("on stderr", file=sys.stderr)
print("no end", end="")
"""
    output = runner.run(script, ranks=1).ranks[0].output
    assert output.splitlines() == ["Größe رُتَب 🙂", "native \ufffd", "\\ud800", "on stderr", "no end"]


def test_more_output_than_anyone_reads_is_dropped_and_counted() -> None:
    result = runner.run("for _ in range(60_000): print('x' * 99)", ranks=1).ranks[0]
    assert leader.OUTPUT_LIMIT <= len(result.output) <= leader.OUTPUT_LIMIT + 100
    assert result.dropped == 6_000_000 - leader.OUTPUT_LIMIT
    without_end = runner.run("print('x' * 300_000, end='')", ranks=1).ranks[0]
    assert without_end.output.replace("\n", "") == "x" * 300_000


def test_what_is_no_number_is_reported_too() -> None:
    script = "from labs.runner import rank; rank.report([float('nan'), float('inf'), -float('inf'), 0.1, 10**30])"
    nan, *rest = runner.run(script, ranks=1).ranks[0].value
    assert nan != nan
    assert rest == [float("inf"), -float("inf"), 0.1, 10**30]


def test_tensors_of_any_kind_come_back() -> None:
    script = """
import torch
from labs.runner import rank
base = torch.arange(12, dtype=torch.bfloat16).reshape(3, 4)
kinds = {"view": base[:, 1:3], "turned": base.t(), "same": base, "one": torch.tensor(7), "none": torch.ones(0)}
rank.report(None, kinds)
"""
    tensors = runner.run(script, ranks=1).ranks[0].tensors()
    base = torch.arange(12, dtype=torch.bfloat16).reshape(3, 4)
    expected = {"view": base[:, 1:3], "turned": base.t(), "same": base, "one": torch.tensor(7)}
    assert all(torch.equal(tensors[name], value) for name, value in expected.items())
    assert tensors["none"].shape == (0,)


def test_nothing_reported_is_nothing() -> None:
    result = runner.run("pass", ranks=1).ranks[0]
    assert (result.value, result.tensors(), result.output) == (None, {}, "")


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("open(path + '/rank-0.json', 'w').write('{')", "cannot be read"),
        ("open(path + '/rank-0.json', 'w').write('[' * 200_000)", "cannot be read"),
        ("open(path + '/rank-0.json', 'wb').write(b'\\xff\\xff')", "cannot be read"),
        ("open(path + '/rank-0.json', 'w').write('1' * 5000)", "cannot be read"),
        ("os.truncate(os.open(path + '/rank-0.json', os.O_CREAT | os.O_RDWR), 10**9)", "1000000000 bytes"),
        ("rank.report({1, 2})", "no JSON value"),
        ("rank.report('x' * 17_000_000)", "17000002 bytes"),
    ],
)
def test_a_broken_result_is_a_clear_error(script: str, says: str) -> None:
    with pytest.raises(CourseError, match=says):
        runner.run("import os\nfrom labs.runner import rank\npath = os.environ['SHARDWISE_RUN']\n" + script, ranks=1)


@pytest.mark.parametrize("content", ["", "junk" * 10, "\\xff" * 8 + "{}"])
def test_broken_tensors_are_a_clear_error(content: str) -> None:
    script = f"import os; open(os.environ['SHARDWISE_RUN'] + '/rank-0.safetensors', 'w').write('{content}')"
    result = runner.run(script, ranks=1).ranks[0]
    with pytest.raises(CourseError, match="cannot be read"):
        result.tensors()


def test_wrong_use_is_told() -> None:
    with pytest.raises(CourseError, match=r"no script .*nowhere\.py"):
        runner.run(Path("nowhere.py"))
    for ranks in (0, -1, 65):
        with pytest.raises(CourseError, match="1 to 64 ranks"):
            runner.run("pass", ranks=ranks)
    with pytest.raises(CourseError, match="folder of the run"):
        runner.run("pass", folder=Path(os.devnull) / "x")


def test_a_given_folder_is_kept_and_holds_one_run(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    first = runner.run("from labs.runner import rank; rank.report(rank.number())", ranks=2, folder=folder)
    second = runner.run("pass", ranks=1, folder=folder)
    assert second.ranks[0].value is None
    del first, second
    gc.collect()
    assert folder.is_dir()
    assert not list(folder.glob("*.json"))


def test_a_temporary_folder_lives_as_long_as_a_result() -> None:
    run = runner.run("import torch; from labs.runner import rank; rank.report(1, {'a': torch.ones(1)})", ranks=1)
    folder, result = run.folder, run.ranks[0]
    del run
    gc.collect()
    assert result.tensors()["a"].item() == 1
    del result
    gc.collect()
    assert not folder.exists()


def test_runs_at_once_do_not_meet() -> None:
    runs: dict[int, runner.Run] = {}
    threads = [
        threading.Thread(target=lambda n=n: runs.__setitem__(n, runner.run(SUM, ranks=2, arguments=[str(n)])))
        for n in range(3)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert {n: run.ranks[0].value["argv"] for n, run in runs.items()} == {n: [str(n)] for n in range(3)}


def test_reruns_are_quick() -> None:
    runner.run("pass", ranks=4)
    times: list[float] = []
    while len(times) < 20 and min(times, default=1.0) > 0.5:  # other work on the machine may slow one, not all
        begun = time.monotonic()
        runner.run("pass", ranks=4)
        times.append(time.monotonic() - begun)
    assert min(times) < 0.5, times


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_server_has_no_threads_that_a_copy_would_miss() -> None:
    runner.run("pass", ranks=1)
    for pid in _servers.pids:
        assert len(list(Path(f"/proc/{pid}/task").iterdir())) == 1


def test_ranks_may_have_another_interpreter_with_a_server_of_its_own(tmp_path: Path) -> None:
    for name in ("lib", "pyvenv.cfg"):
        (tmp_path / name).symlink_to(Path(sys.prefix) / name)
    other = tmp_path / "bin" / "python"
    other.parent.mkdir()
    other.symlink_to(sys.executable)
    ran = runner.run("import os, sys; print(sys.executable, os.environ['RANK'])", ranks=2, python=other)
    assert [each.output for each in ran.ranks] == [f"{other} {rank}\n" for rank in range(2)]
    assert str(other) in _servers._servers
    spawned = runner.run("import sys; print(sys.executable)", ranks=1, python=other, start_method="spawn")
    assert spawned.ranks[0].output == f"{other}\n"
    _servers.end(str(other))
    assert str(other) not in _servers._servers


def test_asking_does_not_need_torch() -> None:
    code = "import sys, labs.runner; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, timeout=60).returncode == 0
