"""A model of Transformers, trained by Accelerate, by the Trainer and by our own ZeRO, an ordinary torchrun script:
`torchrun --nproc-per-node 2 labs/stacks/accelerated.py --way trainer-zero-2`.

Every way has the same weights, batches and Adam. It says what was really wrapped around the model, which may not be
what was asked for, and finds the largest micro-batch that fits a budget of memory.
"""

from __future__ import annotations

import gc
import importlib.metadata
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.profiler import record_function

from labs import training
from labs.cases.rows import Row, rows_of, versions
from labs.catalogue import LabRun, run_lab, together
from labs.data import global_batch, micro_batches
from labs.model import VOCABULARY, parameter_count
from labs.options.accelerated import AcceleratedOptions
from labs.runner import rank as this
from labs.runner import run
from labs.stacks.environment import needs
from labs.stacks.largest_batch import largest_batch, on_fullest
from labs.stacks.running import run_of
from labs.stacks.torchs_own import Replicated, ended_first
from labs.stacks.what_ran import what_ran
from labs.stacks.zero_engine import attribute, deepspeed_here
from labs.strategies.units import MicroBatch, Recipe
from labs.strategies.zero_2 import Zero2
from labs.telemetry import Tracker

if TYPE_CHECKING:
    from labs.telemetry.rows import Row as MemoryRow
    from labs.telemetry.rows import Told

STACKS = ("transformers", "accelerate", "deepspeed")
LAUNCH_SECONDS = 120.0


class Way(Protocol):
    """A way to train: `wrapped` is what stands around the model."""

    @property
    def wrapped(self) -> nn.Module: ...

    def train(self, batches: Iterator[MicroBatch]) -> list[Tensor]:
        """A step on each of this rank's micro-batches; the loss of each on this rank."""

    def step(self, batch: MicroBatch) -> Tensor:
        """One step more."""


class Causal(nn.Module):
    """Transformers' model as the labs' strategies call one: tokens and targets (B, S) -> the mean loss."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens_BS: Tensor, targets_BS: Tensor) -> Tensor:
        loss: Tensor = self.model(**asked(tokens_BS, targets_BS)).loss
        return loss


def asked(tokens_BS: Tensor, targets_BS: Tensor) -> dict[str, Tensor]:
    """As Transformers takes them: S + 1 tokens, which are labels too; it moves the labels itself."""
    whole = torch.cat([tokens_BS, targets_BS[:, -1:]], dim=1)
    return {"input_ids": whole, "labels": whole}


class Ours:
    """Plain DDP or our ZeRO-2."""

    def __init__(self, model: Any, name: str, *, recipe: Recipe, tracker: Tracker) -> None:
        group, causal = cast("dist.ProcessGroup", dist.group.WORLD), Causal(model)
        if name == "ddp":
            self.strategy: Replicated | Zero2 = Replicated(causal, group=group, recipe=recipe)
            tracker.watch(self.strategy.model, self.strategy.adam)
        else:
            inner = model.transformer
            pieces = [inner.wte, inner.wpe, *inner.h, inner.ln_f, model.lm_head]
            self.strategy = Zero2(causal, pieces, group=group, recipe=recipe)
        self.wrapped: nn.Module = self.strategy.model

    def train(self, batches: Iterator[MicroBatch]) -> list[Tensor]:
        return [self.step(batch) for batch in batches]

    def step(self, batch: MicroBatch) -> Tensor:
        return self.strategy.train_step([batch])


class Accelerated:
    """Accelerate's own loop: `prepare`, `backward`, `step`, with the plugin that the name says."""

    def __init__(self, model: Any, name: str, *, options: AcceleratedOptions, recipe: Recipe, tracker: Tracker) -> None:
        from accelerate import Accelerator, DeepSpeedPlugin, FullyShardedDataParallelPlugin, PartialState

        plugins: dict[str, Any] = {}
        if name.endswith("zero-2"):
            plugins["deepspeed_plugin"] = DeepSpeedPlugin(hf_ds_config=config(options))
        if name == "accelerate-fsdp2":
            plugins["fsdp_plugin"] = FullyShardedDataParallelPlugin(fsdp_version=2)
        self.tracker = tracker
        on_cpu = this.device().type == "cpu"
        if name == "accelerate-zero-2":
            PartialState(cpu=on_cpu)  # as the Trainer does; without it Accelerate would see one process
            on_cpu = False
        self.accelerator = Accelerator(cpu=on_cpu and name != "accelerate-alone", **plugins)
        adam = torch.optim.Adam(model.parameters(), lr=recipe.lr, eps=recipe.eps, fused=True)
        with record_function("report"):  # DeepSpeed compares the parameters of the ranks
            self.wrapped, self.adam = self.accelerator.prepare(model, adam)
        self.engine = hasattr(self.wrapped, "zero_optimization")
        if not self.engine:
            tracker.watch(self.wrapped, adam)

    def train(self, batches: Iterator[MicroBatch]) -> list[Tensor]:
        return [self.step(batch) for batch in batches]

    def step(self, batch: MicroBatch) -> Tensor:
        with record_function("forward"):
            loss: Tensor = self.wrapped(**asked(*batch)).loss
        with record_function("backward"):
            self.accelerator.backward(loss)
        self.adam.step()
        self.adam.zero_grad()
        if self.engine:
            attribute(self.tracker, self.wrapped)
        return loss.detach()


class Trained:
    """The Trainer of Transformers, with DeepSpeed's settings as a dictionary."""

    def __init__(
        self, model: Any, *, options: AcceleratedOptions, recipe: Recipe, tracker: Tracker, place: str
    ) -> None:
        from torch.utils.data import DataLoader
        from transformers import PrinterCallback, Trainer, TrainingArguments

        own = self
        self.tracker = tracker

        class Watched(Trainer):  # type: ignore[misc]
            def get_train_dataloader(self) -> Any:
                return DataLoader(_Batches(own.batches), batch_size=None)

            def training_step(self, *given: Any, **named: Any) -> Tensor:
                loss: Tensor = super().training_step(*given, **named)
                own.losses.append(loss)
                attribute(tracker, own.wrapped)
                return loss

        arguments = TrainingArguments(
            output_dir=place,
            use_cpu=this.device().type == "cpu",
            deepspeed=config(options),
            per_device_train_batch_size=options.sequences_at_once(this.world_size()),
            max_steps=options.steps,
            learning_rate=recipe.lr,
            lr_scheduler_type="constant",
            # Under DeepSpeed the Trainer makes its own Adam even where one was given.
            optim="adamw_torch_fused",
            adam_epsilon=recipe.eps,
            max_grad_norm=0.0,
            logging_strategy="no",
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
        )
        self.trainer = Watched(model=model, args=arguments)
        self.trainer.remove_callback(PrinterCallback)
        self.accelerator = self.trainer.accelerator

    @property
    def wrapped(self) -> nn.Module:
        return cast("nn.Module", self.trainer.model_wrapped)

    def train(self, batches: Iterator[MicroBatch]) -> list[Tensor]:
        self.batches, self.losses = (asked(*batch) for batch in batches), list[Tensor]()
        self.trainer.train()
        return self.losses

    def step(self, batch: MicroBatch) -> Tensor:
        """The Trainer's own step, which under DeepSpeed holds the optimizer's."""
        return self.trainer.training_step(self.wrapped, asked(*batch))


class _Batches(torch.utils.data.IterableDataset[dict[str, Tensor]]):
    def __init__(self, batches: Iterator[dict[str, Tensor]]) -> None:
        self.batches = batches

    def __iter__(self) -> Iterator[dict[str, Tensor]]:
        return self.batches


def config(options: AcceleratedOptions) -> dict[str, Any]:
    """What stands in `ds_config.json`."""
    ranks = this.world_size()
    return {
        "train_batch_size": options.global_batch(ranks),
        "train_micro_batch_size_per_gpu": options.sequences_at_once(ranks),
        "gradient_accumulation_steps": 1,
        "gradient_clipping": 0.0,  # where the file says nothing DeepSpeed clips at 1.0
        "zero_optimization": {"stage": 2, "reduce_bucket_size": options.reduce_bucket},
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
        "steps_per_print": 10**9,
    }


def model_of(options: AcceleratedOptions) -> Any:
    """GPT-2 of Transformers, made from a configuration: no file is loaded."""
    import transformers

    torch.manual_seed(options.seed)
    settings = transformers.GPT2Config(
        vocab_size=VOCABULARY,
        n_positions=options.sequence + 1,
        n_embd=options.hidden,
        n_layer=options.layers,
        n_head=options.heads,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        use_cache=False,
        bos_token_id=0,
        eos_token_id=0,
    )
    with record_function("parameters"):
        model: Any = transformers.GPT2LMHeadModel(settings).to(this.device())
    # By its class's name it has no loss: the Trainer would count the first label too, which no position predicts, and
    # divide the sum of the losses by S + 1.
    model.loss_type = "ForCausalLM"
    return model


def built(model: Any, options: AcceleratedOptions, *, tracker: Tracker, place: str) -> Way:
    """The way that the options name, around the model."""
    recipe, name = training.recipe_of(options), cast("str", options.way)
    if name in ("ddp", "zero-2"):
        return Ours(model, name, recipe=recipe, tracker=tracker)
    if name == "trainer-zero-2":
        return Trained(model, options=options, recipe=recipe, tracker=tracker, place=place)
    return Accelerated(model, name, options=options, recipe=recipe, tracker=tracker)


def train(options: AcceleratedOptions) -> dict[str, Any]:
    """What this rank reports."""
    name = cast("str", options.way)
    if name.endswith("zero-2") and name != "zero-2":
        deepspeed_here()
    with ended_first() as group:
        return trained(options, group)


def trained(options: AcceleratedOptions, group: dist.ProcessGroup) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as place, training.watched(options) as tracker:
        rank, ranks, device = dist.get_rank(group), dist.get_world_size(group), this.device()
        tracker.name_axis(group, "data")
        model = model_of(options)
        parameters = parameter_count(model)
        way = built(model, options, tracker=tracker, place=place)

        def batch(number: int, size: int) -> MicroBatch:
            whole = global_batch(number, size=ranks * size, sequence=options.sequence, seed=options.seed)
            return micro_batches(whole, rank=rank, ranks=ranks, device=device)[0]

        def batches() -> Iterator[MicroBatch]:
            for number in range(options.steps):
                this.step(number)
                tracker.reset_collectives()
                yield batch(number, options.sequences_at_once(ranks))

        losses = [training.mean_over_ranks(loss, group) for loss in way.train(batches())]
        kept = tracker.now
        moved = {key: count.as_dict() for key, count in tracker.collectives.items()}

        def peak(micro_batch: int) -> int:
            gc.collect()  # a cycle in DeepSpeed keeps the last bucket until then
            tracker.reset_peak()
            way.step(batch(options.steps, micro_batch))
            return on_fullest(tracker, group)

        found = largest_batch(peak, budget=round(options.budget * 10**6), most=options.most)
        accelerator = getattr(way, "accelerator", None)
        saw = {} if accelerator is None else {"ranks": accelerator.num_processes, "kind": accelerator.distributed_type}
        return {
            "rank": this.number(),
            "losses": losses,
            "parameters": parameters,
            "kept": kept.as_dict(),
            "collectives": moved,
            "wrapped": type(way.wrapped).__name__,
            "saw": saw,
            "versions": versions() | {name: importlib.metadata.version(name) for name in STACKS},
            "micro_batch": found.micro_batch,
            "peaks": {str(size): held for size, held in sorted(found.peaks.items())},
        }


def reference(options: AcceleratedOptions, *, ranks: int) -> list[float]:
    """Losses of one process that sees the whole batch."""
    recipe, causal = training.recipe_of(options), Causal(model_of(options))
    adam = torch.optim.Adam(causal.parameters(), lr=recipe.lr, eps=recipe.eps)
    losses = []
    for number in range(options.steps):
        adam.zero_grad()
        loss: Tensor = causal(*training.batch_of(options, number, ranks=ranks))
        loss.backward()  # type: ignore[no-untyped-call]
        adam.step()
        losses.append(loss.item())
    return losses


def conduct(
    options: AcceleratedOptions,
    *,
    ranks: int,
    timeout: float = 300.0,
    on_row: Callable[[int, Told], None] | None = None,
    on_output: Callable[[int, str], None] | None = None,
) -> LabRun:
    """Each way in a run of its own, and what `accelerate launch` starts on a machine without an accelerator."""
    python, here = needs(*STACKS), Path(__file__)
    found: dict[str, dict[str, Any]] = {}
    rows: dict[int, tuple[MemoryRow, ...]] = {}
    reports: list[dict[str, Any]] = []
    for name in options.ways():
        chosen = replace(options, way=name)
        reports, rows = run_of(
            here, chosen, ranks=ranks, timeout=timeout, on_row=on_row, on_output=on_output, python=python
        )
        found[name] = {key: value for key, value in reports[0].items() if key not in ("rank", "parameters")}
        found[name]["ran"] = what_ran(name, reports[0], parameters=reports[0]["parameters"], ranks=ranks)
    words = ["--reference", str(ranks), *options.arguments()]
    alone = run(here, ranks=1, arguments=words, timeout=timeout, python=python).ranks[0].value
    losses = cast("dict[str, Any]", alone)["losses"]
    data = together("accelerated", options, reports, reference_losses=losses) | {"ways": found}
    if options.way is None:
        data["launched"] = {"asked": ranks, "started": launched(python, ranks=ranks)}
    data["told"] = list(told(data, ranks=ranks))
    data["results"] = [each.as_dict() for each in rows_found(data)]
    return LabRun(data=data, rows=rows)


def told(data: dict[str, Any], *, ranks: int) -> Iterator[dict[str, Any]]:
    """What is not as asked, as messages of the labs."""
    for way, each in data["ways"].items():
        if each["ran"] != "as-asked":
            values = {"way": way, "wrapped": each["wrapped"], "seen": each["saw"].get("ranks", ranks), "ranks": ranks}
            yield {"id": f"ran-{each['ran']}", "values": values}
    if "launched" in data and data["launched"]["started"] != ranks:
        yield {"id": "ran-launched", "values": data["launched"]}


def launched(python: Path, *, ranks: int) -> int:
    """How many processes `accelerate launch --cpu` starts when it is asked for so many, as they see it themselves."""
    command = [str(python), "-m", "accelerate.commands.launch", "--cpu", "--num_machines", "1"]
    with tempfile.TemporaryDirectory() as place:
        script = Path(place, "script.py")
        script.write_text(
            "from accelerate import PartialState\nprint(PartialState(cpu=True).num_processes)\n", encoding="utf-8"
        )
        own = {key: value for key, value in os.environ.items() if not key.startswith(("ACCELERATE_", "FSDP_"))}
        done = subprocess.run(
            [*command, "--num_processes", str(ranks), str(script)],
            env=own | {"HF_HOME": place, "TMPDIR": place},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=LAUNCH_SECONDS,
            check=True,
            text=True,
        )
    return int(done.stdout.split()[-1])


def rows_found(data: dict[str, Any]) -> list[Row]:
    """What goes into the table of the cases."""
    ways: dict[str, dict[str, Any]] = data["ways"]
    stack = next(iter(ways.values()))["versions"]
    rows = [
        Row(name=name, value=value(each), unit=unit, of=way, versions=stack)
        for name, unit, value in (
            ("accelerated-apart", "", lambda each: apart(each["losses"], data["reference_losses"])),
            ("accelerated-states", "B", lambda each: states(each["kept"])),
            ("accelerated-batch", "", lambda each: each["micro_batch"]),
        )
        for way, each in ways.items()
    ]
    if "launched" in data:
        rows.append(Row(name="accelerated-launched", value=data["launched"]["started"], versions=stack))
    return rows


def apart(losses: Sequence[float], others: Sequence[float]) -> float:
    """The largest difference."""
    return max(abs(a - b) for a, b in zip(losses, others, strict=True))


def states(kept: dict[str, int]) -> int:
    """Bytes of the model states that stay on a rank between two steps."""
    return kept["parameters"] + kept["gradients"] + kept["optimizer_states"]


def results() -> Sequence[Row]:
    """For the table of all cases: on 2 ranks."""
    return rows_of(run_lab("accelerated", ranks=2).data)


if __name__ == "__main__":
    training.main(AcceleratedOptions, train, reference)
