"""A lab on several machines, and the file that starts it there.

Everywhere the same happens: one torchrun on each node starts that node's ranks, and all meet at one address. What
differs is who says where that is. The labs need no change: on GPUs they take NCCL, without GPUs gloo.
"""

from __future__ import annotations

import json
import re
import shlex
import string
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from labs.catalogue import lab
from labs.options.base import Options
from labs.strategies.layout import Layout
from translations import CourseError

KINDS = {"slurm": "slurm.sh", "kubernetes": "kubernetes.yaml"}
IMAGE = re.compile(r"[a-z0-9]+([._/:@-]+[A-Za-z0-9]+)*")
_RESOURCE = re.compile(r"[a-z0-9]+([.-][a-z0-9]+)*/[A-Za-z0-9]+([._-][A-Za-z0-9]+)*")


class Template(string.Template):
    """`@{name}` is filled in; the dollars of a shell stay."""

    delimiter = "@"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A lab with the words of its script, on `nodes` machines of `ranks_per_node` ranks, each on a GPU of its own where
    there are `gpus`. `image` is the container's, under Kubernetes, in which the course is installed; `gpu_resource` the
    name that the vendor's device plugin gives its GPUs there.
    """

    lab: str
    words: tuple[str, ...] = ()
    nodes: int = 2
    ranks_per_node: int = 4
    gpus: bool = False
    minutes: int = 10
    image: str = "shardwise:latest"
    gpu_resource: str = "nvidia.com/gpu"

    @property
    def ranks(self) -> int:
        return self.nodes * self.ranks_per_node

    @property
    def options(self) -> Options:
        return lab(self.lab).options.parse(self.words)

    def checked(self) -> Self:
        """Itself. Raises CourseError for a job that could only fail after it had waited in a queue."""
        for name in ("nodes", "ranks_per_node", "minutes"):
            if getattr(self, name) < 1:
                raise CourseError(
                    "labs.option-at-least", name=name.replace("_", "-"), least=1, value=getattr(self, name)
                )
        if not IMAGE.fullmatch(self.image):
            raise CourseError("labs.clusters-image", image=self.image)
        if not _RESOURCE.fullmatch(self.gpu_resource):
            raise CourseError("labs.clusters-gpu-resource", resource=self.gpu_resource)
        wanted = self.options.ranks()
        if wanted is not None and wanted != self.ranks:
            raise CourseError(
                "labs.clusters-ranks", wanted=wanted, ranks=self.ranks, nodes=self.nodes, each=self.ranks_per_node
            )
        self.options.checked(ranks=self.ranks)
        return self

    def places(self) -> tuple[list[str], list[str]]:
        """The axes of more than one rank: those whose groups each lie inside one node, and those that reach across."""
        degrees = self.options.layout(self.ranks)
        layout = Layout(**{axis: degrees.get(axis, 1) for axis in ("dp", "pp", "tp", "cp")})
        inside: list[str] = []
        across: list[str] = []
        for axis, degree in layout.degrees().items():
            if degree > 1:
                nodes = [{rank // self.ranks_per_node for rank in group} for group in layout.groups(axis)]
                (inside if all(len(each) == 1 for each in nodes) else across).append(axis)
        return inside, across


def rendered(job: Job, kind: str) -> str:
    """The file for `kind`, slurm or kubernetes. Raises CourseError for a job that cannot run."""
    job.checked()
    inside, across = job.places()
    template = Template((Path(__file__).parent / KINDS[kind]).read_text(encoding="utf-8"))
    return template.substitute(
        name=f"shardwise-{job.lab}",
        lab=job.lab,
        nodes=job.nodes,
        ranks_per_node=job.ranks_per_node,
        ranks=job.ranks,
        minutes=job.minutes,
        seconds=60 * job.minutes,
        image=job.image,
        inside=", ".join(inside) or "none",
        across=", ".join(across) or "none",
        words=" ".join(["", *map(shlex.quote, job.words)]),
        arguments="".join(f", {json.dumps(word)}" for word in job.words),
        slurm_gpus=f"\n#SBATCH --gpus-per-node={job.ranks_per_node}" if job.gpus else "",
        kubernetes_gpus=f"\n              {job.gpu_resource}: {job.ranks_per_node}" if job.gpus else "",
    )
