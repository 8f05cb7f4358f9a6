"""Files for Slurm and Kubernetes: valid by schema, runnable where stand-ins play the cluster, refused with a reason."""

from __future__ import annotations

import json
import os
import re
import shlex
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from labs.catalogue import LABS
from labs.clusters.__main__ import main
from labs.clusters.jobs import KINDS, Job, rendered
from translations import CourseError

FOLDER = Path(__file__).parent
ROOT = FOLDER.parent.parent.parent
SCHEMA = json.loads((FOLDER / "kubernetes.schema.json").read_text(encoding="utf-8"))
SMALL = ("--hidden", "16", "--sequence", "8", "--steps", "2", "--micro-batches", "2")
JOBS = [
    Job(lab="layout", words=("--dp", "2", "--pp", "2", "--tp", "2"), gpus=True, image="registry.example.org/x:1.0"),
    Job(lab="layout", words=("--dp", "4", "--pp", "2", "--tp", "1"), nodes=4, ranks_per_node=2, minutes=30),
    Job(lab="zero", words=("--stage", "3"), nodes=3),
    Job(lab="zero", gpus=True, gpu_resource="amd.com/gpu"),
]


@pytest.mark.parametrize("job", JOBS, ids=lambda job: f"{job.lab}-{job.nodes}")
def test_a_manifest_holds_to_the_schema_of_kubernetes(job: Job) -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    service, batch = yaml.safe_load_all(rendered(job, "kubernetes"))
    for document in (service, batch):
        jsonschema.validate(document, SCHEMA)
    spec = batch["spec"]
    assert spec["completions"] == spec["parallelism"] == job.nodes
    assert spec["completionMode"] == "Indexed"
    pod = spec["template"]["spec"]
    container = pod["containers"][0]
    assert f"--nnodes={job.nodes}" in container["command"]
    assert container["args"] == ["-m", f"labs.{job.lab}", *job.words]
    wanted = {job.gpu_resource: job.ranks_per_node} if job.gpus else {}
    assert {name: count for name, count in container["resources"]["limits"].items() if "/" in name} == wanted
    # The first pod's name in the service is where all ranks meet.
    name = batch["metadata"]["name"]
    assert service["metadata"]["name"] == pod["subdomain"] == name
    assert service["spec"]["selector"] == {"batch.kubernetes.io/job-name": name}
    assert f"--master-addr={name}-0.{name}" in container["command"]
    port = service["spec"]["ports"][0]["port"]
    assert f"--master-port={port}" in container["command"]


def test_the_schema_refuses_what_kubernetes_would() -> None:
    _, batch = yaml.safe_load_all(rendered(JOBS[0], "kubernetes"))
    for change in ({"completions": "2"}, {"completion": 2}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(batch | {"spec": batch["spec"] | change}, SCHEMA)


@pytest.mark.parametrize("job", JOBS, ids=lambda job: f"{job.lab}-{job.nodes}")
def test_a_batch_file_is_a_shell_script_with_slurms_options(job: Job, tmp_path: Path) -> None:
    file = tmp_path / "job.sh"
    file.write_text(rendered(job, "slurm"), encoding="utf-8")
    subprocess.run(["bash", "-n", file], check=True, timeout=10)
    lines = file.read_text(encoding="utf-8").splitlines()
    assert lines[0] == "#!/bin/bash"
    options = dict(line.removeprefix("#SBATCH --").split("=", 1) for line in lines if line.startswith("#SBATCH"))
    last = max(number for number, line in enumerate(lines) if line.startswith("#SBATCH"))
    assert all(line.startswith("#") for line in lines[: last + 1]), "sbatch reads no option after a command"
    assert options["nodes"] == str(job.nodes)
    assert options["ntasks-per-node"] == "1"
    assert options["cpus-per-task"] == str(job.ranks_per_node)
    assert options["time"] == str(job.minutes)
    assert options.get("gpus-per-node") == (str(job.ranks_per_node) if job.gpus else None)


def free_job() -> int:
    """The number of a job whose port nobody has now."""
    for number in range(os.getpid() % 10_000, 20_000):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", 20_000 + number))
            except OSError:
                continue
            return number
    raise AssertionError("no port is free")


def test_the_batch_file_runs_on_two_nodes_that_stand_ins_play(tmp_path: Path) -> None:
    """`srun` starts a task for each node, here on this machine; the two torchruns meet and train."""
    tools = tmp_path / "bin"
    tools.mkdir()
    stand_ins = {
        "scontrol": '[ "$*" = "show hostnames node[1-2]" ] && printf "localhost\\nelsewhere\\n"',
        "srun": 'shift; tasks=(); for node in $(seq "$SLURM_JOB_NUM_NODES"); do "$@" & tasks+=($!); done\n'
        'for task in "${tasks[@]}"; do wait "$task" || exit 1; done',
        "torchrun": f'exec "{sys.executable}" -m torch.distributed.run "$@"',
    }
    for name, script in stand_ins.items():
        (tools / name).write_text(f"#!/bin/bash\n{script}\n", encoding="utf-8")
        (tools / name).chmod(0o755)
    file = tmp_path / "job.sh"
    job = Job(lab="layout", words=("--dp", "1", "--pp", "2", "--tp", "1", *SMALL), nodes=2, ranks_per_node=1)
    file.write_text(rendered(job, "slurm"), encoding="utf-8")
    environment = os.environ | {
        "PATH": f"{tools}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "SLURM_JOB_NODELIST": "node[1-2]",
        "SLURM_JOB_NUM_NODES": "2",
        "SLURM_JOB_ID": str(free_job()),
    }
    ended = subprocess.run(
        ["bash", file], env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    told: dict[str, Any] = json.loads(next(line for line in ended.stdout.splitlines() if line.startswith("{")))
    assert told["rank"] == 0
    assert told["coordinates"] == {"pipeline": 0, "data": 0, "context": 0, "tensor": 0}
    assert told["axes"]["pipeline"]["send"]["count"] == 2


def test_the_file_says_which_axes_stay_inside_a_node() -> None:
    eight = ("--dp", "2", "--pp", "2", "--tp", "2")
    assert Job(lab="layout", words=eight).places() == (["data", "tensor"], ["pipeline"])
    assert Job(lab="layout", words=eight, nodes=4, ranks_per_node=2).places() == (["tensor"], ["pipeline", "data"])
    assert Job(lab="layout", words=eight, nodes=8, ranks_per_node=1).places() == ([], ["pipeline", "data", "tensor"])
    assert Job(lab="tensor").places() == ([], ["tensor"])
    assert "inside a node: data, tensor. Across nodes: pipeline" in rendered(Job(lab="layout", words=eight), "slurm")


@pytest.mark.parametrize("name", LABS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_lab_can_be_sent(name: str, kind: str) -> None:
    words = ("--heads", "8") if name in ("tensor", "sequence") else ()
    job = Job(lab=name, words=words, nodes=1, ranks_per_node=LABS[name].options().ranks() or 8)
    assert f"labs.{name}" in rendered(job, kind)
    assert "@{" not in rendered(job, kind)


@pytest.mark.parametrize(
    ("job", "message"),
    [
        (Job(lab="layout", nodes=1), "clusters-ranks"),
        (Job(lab="zero", nodes=0), "option-at-least"),
        (Job(lab="zero", minutes=0), "option-at-least"),
        (Job(lab="zero", image="two words"), "clusters-image"),
        (Job(lab="zero", gpus=True, gpu_resource="gpu: 8"), "clusters-gpu-resource"),
        (Job(lab="tensor", words=("--heads", "6")), "heads-do-not-divide"),
        (Job(lab="zer"), "unknown-lab"),
    ],
)
def test_what_could_only_fail_after_waiting_in_a_queue_is_refused(job: Job, message: str) -> None:
    with pytest.raises(CourseError) as refused:
        rendered(job, "slurm")
    assert refused.value.id == f"labs.{message}"


def test_words_of_a_lab_survive_the_shell_and_the_manifest(tmp_path: Path) -> None:
    folder = tmp_path / 'it\'s "here" $HOME'
    folder.mkdir()
    job = Job(lab="offload", words=("--to", "file", "--folder", str(folder)))
    last = rendered(job, "slurm").splitlines()[-1]
    assert shlex.split(last) == ["-m", "labs.offload", *job.words]
    _, batch = yaml.safe_load_all(rendered(job, "kubernetes"))
    assert batch["spec"]["template"]["spec"]["containers"][0]["args"] == ["-m", "labs.offload", *job.words]


def test_the_command_writes_the_file_or_says_why_not(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["slurm", "layout", "--nodes", "4", "--ranks-per-node", "2", "--pp", "2"]) == 0
    assert re.search(r"-m labs\.layout --pp 2\n$", capsys.readouterr().out)
    assert main(["kubernetes", "layout", "--nodes", "3"]) == 2
    assert "3 x 4" in capsys.readouterr().err
