"""The file that starts Megatron-LM itself with a published layout, on machines with GPUs, under Slurm."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from labs.clusters.jobs import Template
from labs.planner.configuration import Configuration
from labs.planner.hardware import Accelerator, accelerator
from labs.planner.megatron_flags import published, read, same_layout, written
from labs.planner.memory import memory
from translations import CourseError, formats

VERSION = "0.16.1"
LACKS = {
    "alibi": "Megatron Core has no ALiBi, which BigScience's Megatron-DeepSpeed had: this has no positions at all.",
    "embedding-norm": "Nor has it a norm of the embedding: {count:,} parameters less on the first stage.",
}
"""What the file says in English, as all that a shell reads."""


def launch(name: str) -> str:
    """The file for a published run. Raises CourseError for a layout that would not fit its GPUs."""
    run, lacks = published(name)
    return rendered(run.plan, gpu=accelerator(run.gpu), source=run.source, lacks=lacks)


def rendered(plan: Configuration, *, gpu: Accelerator, source: str, lacks: tuple[str, ...] = ()) -> str:
    """The file for a layout, whose flags are read back before it is given."""
    found = memory(plan, gpu=gpu)
    if not found.fits:
        raise CourseError(
            "labs.megatron-too-large",
            model=plan.model.title,
            needed=formats.bytes_(found.total, "en"),
            room=formats.bytes_(gpu.memory, "en"),
        )
    flags = written(plan)
    if not same_layout(read(" ".join(flags), ranks=plan.gpus).plan, replace(plan)):
        raise ValueError(f"the flags of {plan.model.name} are not read back as the same layout")
    said = [LACKS[each].format(count=plan.model.norm) for each in lacks]
    template = Template((Path(__file__).parent / "megatron.sh").read_text(encoding="utf-8"))
    return template.substitute(
        name=f"megatron-{plan.model.name}",
        nodes=-(-plan.gpus // gpu.node),
        per_node=min(gpu.node, plan.gpus),
        title=plan.model.title,
        source=source,
        dp=plan.dp,
        pp=plan.pp,
        tp=plan.tp,
        ranks=plan.gpus,
        total=formats.bytes_(found.total, "en"),
        stage=found.stage,
        room=formats.bytes_(gpu.memory, "en"),
        gpu=gpu.title,
        parameters=f"{plan.model.parameters:,}",
        version=VERSION,
        lacks="".join(f"# {line}\n" for line in said),
        flags=" \\\n  ".join(flags),
    )
