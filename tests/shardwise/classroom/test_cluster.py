"""Grading on a cluster: the files are valid, run as a cluster runs them, and leave what one machine leaves."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from shardwise import cli
from shardwise.classroom import batch, result
from shardwise.classroom.cluster import KINDS, MOST, Plan, write
from shardwise.classroom.interior import ROOT
from tests.shardwise.classroom.a_class import EXERCISE, code, hand_in, made, right_answers
from tests.shardwise.classroom.test_sandbox import BARRED
from translations import CourseError

SCHEMA = json.loads((Path(__file__).parent / "kubernetes.schema.json").read_text(encoding="utf-8"))
STUB = {"code": code("stub")}
ODD = "o'dd %s $HOME"
"""A name that a shell, sbatch and a manifest would each read as something else."""

pytestmark = [pytest.mark.timeout(240), pytest.mark.xdist_group("sandbox")]


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("class")
    known = made(folder, students={"anna": "en", "bram": "nl", "celia": "ar"})
    hand_in(folder, "anna", right_answers(known, "anna"))
    hand_in(folder, "bram", STUB, language="nl")
    hand_in(folder, ODD, STUB)
    return folder


def slurm_options(text: str) -> dict[str, str]:
    lines = text.splitlines()
    last = max(number for number, line in enumerate(lines) if line.startswith("#SBATCH"))
    assert all(line.startswith("#") for line in lines[: last + 1]), "sbatch reads no option after a command"
    given = [line.removeprefix("#SBATCH --") for line in lines if line.startswith("#SBATCH")]
    return dict(each.partition("=")[::2] for each in given)


def test_the_array_has_a_task_for_each_submission(course: Path) -> None:
    written = write(course, "slurm", Plan(at_once=2, minutes=7), again=True)
    assert written.jobs == 3
    for path in written.files:
        if path.suffix == ".sh":
            subprocess.run(["bash", "-n", path], check=True, timeout=10)
    options = slurm_options((course / "cluster" / "slurm.sh").read_text(encoding="utf-8"))
    assert options["array"] == "1-3%2"
    assert (options["time"], options["cpus-per-task"], options["mem"]) == ("7", "2", "6144M")
    lines = [line.split("\t") for line in (course / "cluster" / "jobs.tsv").read_text(encoding="utf-8").splitlines()]
    assert [line[0] for line in lines] == ["anna", "bram", ODD]
    assert lines[1][1:4] == [EXERCISE, EXERCISE, "nl"]
    for line in lines:
        assert (course / line[4]).is_dir()
        assert not Path(line[5]).is_absolute()


@pytest.mark.soak
def test_slurm_itself_takes_the_file(course: Path) -> None:
    """Without a cluster it comes as far as the controller: whatever it says of the file it says before that."""
    if shutil.which("sbatch") is None:
        pytest.skip("sbatch is not here, so Slurm itself does not read the file (apt install slurm-client).")
    write(course, "slurm", Plan(), again=True)
    settings = course / "slurm.conf"
    settings.write_text("ClusterName=none\nSlurmctldHost=localhost(127.0.0.1)\nSlurmctldPort=1\nAuthType=auth/none\n")
    environment = os.environ | {"SLURM_CONF": str(settings)}
    asked = ["sbatch", "--test-only", str(course / "cluster" / "slurm.sh")]
    said = subprocess.run(asked, env=environment, capture_output=True, text=True, timeout=60, check=False).stderr
    broken = (course / "cluster" / "broken.sh").with_suffix(".sh")
    broken.write_text("#!/bin/bash\n#SBATCH --array=1-3%two\n#SBATCH --memory-of=2\n", encoding="utf-8")
    refused = subprocess.run(
        ["sbatch", "--test-only", str(broken)], env=environment, capture_output=True, text=True, timeout=60, check=False
    ).stderr
    assert "unrecognized option" in refused
    assert "unrecognized option" not in said
    assert "nvalid" not in said


def manifest(course: Path, **plan: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    write(course, "kubernetes", Plan(**plan), again=True)
    policy, job = yaml.safe_load_all((course / "cluster" / "kubernetes.yaml").read_text(encoding="utf-8"))
    return policy, job


def test_the_manifest_holds_to_the_schema_of_kubernetes(course: Path) -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    policy, job = manifest(course, image="registry.example.org/course:1.2", claim="dst-2026", at_once=50)
    for document in (policy, job):
        jsonschema.validate(document, SCHEMA)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(job | {"spec": job["spec"] | {"completions": "3"}}, SCHEMA)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(policy | {"spec": {"podSelector": {}, "policyType": []}}, SCHEMA)
    assert (job["spec"]["completions"], job["spec"]["parallelism"]) == (3, 3)


def test_a_pod_has_no_network_no_account_no_right_and_writes_only_results(course: Path) -> None:
    policy, job = manifest(course)
    pod = job["spec"]["template"]
    labels = pod["metadata"]["labels"]
    assert policy["spec"] == {"podSelector": {"matchLabels": labels}, "policyTypes": ["Ingress", "Egress"]}
    assert pod["spec"]["automountServiceAccountToken"] is False
    assert pod["spec"]["hostUsers"] is False
    assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
    (container,) = pod["spec"]["containers"]
    held = container["securityContext"]
    assert held["allowPrivilegeEscalation"] is False
    assert held["readOnlyRootFilesystem"] is True
    assert held["capabilities"] == {"drop": ["ALL"]}
    writable = [each["mountPath"] for each in container["volumeMounts"] if not each.get("readOnly")]
    assert sorted(writable) == ["/class/results", "/tmp"]
    assert "memory" in container["resources"]["limits"]


@pytest.mark.skipif(bool(BARRED), reason=BARRED)
def test_tasks_leave_the_results_of_one_machine(course: Path, tmp_path: Path) -> None:
    """The scripts run as a cluster runs them; what they graded is then graded nowhere else."""
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "shardwise").write_text(f'#!/bin/bash\nexec "{sys.executable}" -m shardwise.cli "$@"\n', encoding="utf-8")
    (tools / "shardwise").chmod(0o755)
    environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    write(course, "slurm", Plan(), again=True)
    script = (course / "cluster" / "slurm.sh").read_text(encoding="utf-8")
    # The environment that this runs in has its own shardwise beside its Python: here it is the checkout's.
    (course / "cluster" / "slurm.sh").write_text(
        "\n".join(line for line in script.splitlines() if not line.startswith("export PATH=")), encoding="utf-8"
    )
    for number in ("1", "3"):
        ran = subprocess.run(
            ["bash", course / "cluster" / "slurm.sh"],
            env={**environment, "SLURM_ARRAY_TASK_ID": number},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr[-2000:]
    jobs = {job.student: job for job in batch.jobs(course) if job.path.exists()}
    kept = {name: result.read(job.out) for name, job in jobs.items() if name != "bram"}
    assert {name: each.state for name, each in kept.items()} == {"anna": "graded", ODD: "graded"}
    assert kept["anna"].verdict.passed
    assert kept["anna"].sandboxed
    assert kept["anna"].handed_in == "2026-11-20T10:00:00+00:00"
    assert kept[ODD].verdict.failed_at == "file/unwritten"
    assert [name for name, job in jobs.items() if batch.before(job) is None] == ["bram"]
    assert write(course, "slurm", Plan(), again=False).jobs == 1
    with pytest.raises(CourseError, match="again"):
        write(course, "slurm", Plan(), student="anna", again=False)
    gone = subprocess.run(
        ["bash", course / "cluster" / "task.sh", "99"], env=environment, capture_output=True, timeout=60, check=False
    )
    assert gone.returncode != 0


def test_what_could_only_fail_is_refused(course: Path, tmp_path: Path) -> None:
    for change in ({"minutes": 1}, {"memory": 100}, {"image": "a b"}, {"claim": "../x"}, {"claim": "A"}):
        with pytest.raises(CourseError):
            write(course, "kubernetes", Plan(**change), again=True)
    empty = tmp_path / "empty class"
    made(empty, students={"anna": "en"})
    with pytest.raises(CourseError, match="nothing to grade"):
        write(empty, "slurm", Plan(), again=True)
    hand_in(empty, "anna", STUB)
    with pytest.raises(CourseError, match="white space"):
        write(empty, "slurm", Plan(), again=True)
    assert write(empty, "kubernetes", Plan(), again=True).jobs == 1
    hand_in(empty, "a\tb", STUB)
    with pytest.raises(CourseError, match="new line"):
        write(empty, "kubernetes", Plan(), again=True)
    assert MOST > 1000
    assert {*KINDS} == {"slurm", "kubernetes"}


def test_the_command_says_what_to_do_next(course: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["classroom", "cluster", "slurm", "--course", str(course), "--again"]) == 0
    said = capsys.readouterr().out
    assert f"sbatch {course}/cluster/slurm.sh" in said
    assert "shardwise classroom grade" in said
    assert cli.run(["classroom", "cluster", "kubernetes", "--course", str(course), "--again", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["jobs"] == 3
    assert told["start"].startswith("kubectl apply -f ")
    assert cli.run(["classroom", "cluster", "slurm", "--course", str(course / "none")]) == 2
