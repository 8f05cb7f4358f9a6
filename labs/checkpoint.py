"""The checkpoint lab, an ordinary torchrun script: train and save on some ranks, load and go on with others.

    torchrun --nproc-per-node 4 labs/checkpoint.py --stage 3 --checkpoints runs/1
    torchrun --nproc-per-node 2 labs/checkpoint.py --stage 3 --checkpoints runs/1 --resume

The first run is not interrupted: what the second one does from the checkpoint on is compared with it.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor
from torch.profiler import record_function

from labs import training
from labs.catalogue import MAX_RANKS, LabRun, together
from labs.data import examples, micro_batches, order
from labs.model import GPT
from labs.options.checkpoint import CheckpointOptions
from labs.options.zero import ZeroOptions
from labs.planner.goodput import checkpoint_bytes
from labs.planner.zero import pieces_of, predict
from labs.runner import rank as this
from labs.strategies.checkpoint import CheckpointError, Checkpoints, contents, latest
from labs.strategies.data_parallel import DataParallel
from labs.strategies.parts import Part, names_of, parts_of, places_of, random_states, set_random_states, shapes_in
from labs.strategies.units import Strategy
from labs.strategies.zero_1 import Zero1
from labs.strategies.zero_2 import Zero2
from labs.strategies.zero_3 import Zero3
from labs.telemetry.categories import Bytes
from labs.telemetry.events import Event, Follower, event, tell
from labs.telemetry.rows import Reader, Told
from labs.telemetry.rows import read as read_rows
from translations import CourseError

STRATEGIES: dict[int, Callable[..., Strategy]] = {0: DataParallel, 1: Zero1, 2: Zero2, 3: Zero3}
OnRow = Callable[[int, Told], None]
OnOutput = Callable[[int, str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a run has come, the same on all ranks: all that it takes to go on with the example that comes next."""

    step: int = 0
    consumed: int = 0
    global_batch: int
    seed: int

    def taken(self, sequence: int) -> list[int]:
        """The examples of the next step."""
        return order(self.consumed, self.global_batch, sequence=sequence, seed=self.seed)

    def further(self) -> Progress:
        """After that step."""
        return replace(self, step=self.step + 1, consumed=self.consumed + self.global_batch)


class Session:
    """What the ranks of a run have together: the strategy, its checkpoints, and how far it has come.

    `began` is when its first rank was there, the same on all ranks: one number for each time that the ranks start.
    """

    def __init__(self, options: ZeroOptions, *, group: dist.ProcessGroup, folder: Path) -> None:
        self.options, self.group, self.device = options, group, this.device()
        self.rank, self.ranks = dist.get_rank(group), dist.get_world_size(group)
        began = [time.monotonic()]
        with record_function("report"):
            dist.broadcast_object_list(began, src=0, group=group)
        self.began = began[0]
        event("started", began=self.began, ranks=self.ranks, pid=os.getpid(), parent=os.getppid())
        model = training.model_of(options)
        self.pieces, self.names = pieces_of(model.pieces), names_of(model)
        recipe = training.recipe_of(options)
        self.strategy = STRATEGIES[options.stage](model, model.pieces, group=group, recipe=recipe)
        self.places = places_of(shapes_in(self.strategy.units), self.names)
        with told():
            self.checkpoints = Checkpoints(folder)
        self.progress = Progress(global_batch=options.global_batch(self.ranks), seed=options.seed)
        torch.manual_seed(options.seed * 1_000_003 + self.rank)

    def parts(self) -> list[Part]:
        """The model states of this rank, by their places in the whole model."""
        return parts_of(self.strategy.units, self.places)

    def step(self) -> float:
        """One optimizer step on this rank's part of the examples that come next; the loss of the whole batch."""
        chosen, options = self.progress.taken(self.options.sequence), self.options
        batch = examples(chosen, sequence=options.sequence)
        mine = micro_batches(batch, rank=self.rank, ranks=self.ranks, accumulate=options.accumulate, device=self.device)
        loss = training.mean_over_ranks(self.strategy.train_step(mine), self.group)
        share = len(chosen) // self.ranks
        self.progress = self.progress.further()
        mine_of = chosen[self.rank * share :][:share]
        event("trained", step=self.progress.step - 1, began=self.began, loss=loss, examples=mine_of)
        return loss

    def save(self, safe: Callable[[], None] = lambda: None) -> None:
        """Begin to save; `safe` is called when the checkpoint is committed, and the timeline told."""
        step = self.progress.step
        event("saving", step=step)

        def done() -> None:
            event("saved", step=step)
            safe()

        random = random_states(self.device, rank=self.rank)
        with told():
            self.checkpoints.save([*self.parts(), *random], asdict(self.progress), step=step, then=done)

    def resume(self, *, or_begin: bool = False) -> None:
        """Go on from the latest checkpoint, whatever ranks have saved it; `or_begin` where there is none yet."""
        random = random_states(self.device, rank=self.rank)
        with told():
            if or_begin and self.checkpoints.latest() is None:
                return
            self.progress = Progress(**self.checkpoints.load([*self.parts(), *random]))
        set_random_states(random, self.device)
        if self.progress.global_batch % (self.ranks * self.options.accumulate):
            values = {"batch": self.progress.global_batch, "accumulate": self.options.accumulate}
            raise CourseError("labs.checkpoint-batch", ranks=self.ranks, **values)
        event("resumed", step=self.progress.step)

    def digests(self) -> dict[str, str]:
        """Of every tensor of the whole model, put together without the checkpoint; on rank 0."""
        with record_function("report"), record_function("offloaded"):
            return digests(assembled(self.parts(), self.group))


@contextmanager
def told() -> Iterator[None]:
    """What is wrong with a checkpoint or its folder, in the learner's words."""
    try:
        yield
    except CheckpointError as error:
        raise CourseError(f"labs.checkpoint-{error.problem}", **error.values) from error
    except OSError as error:
        raise CourseError("labs.checkpoint-no-folder", detail=error) from error


def train(options: CheckpointOptions) -> dict[str, Any]:
    """What this rank reports."""
    with this.group() as group, training.watched(options) as tracker:
        session = Session(options, group=group, folder=Path(options.checkpoints or "checkpoints"))
        begun, found = time.perf_counter(), dict[str, str]()
        seconds: dict[str, float] = {}
        if options.resume:
            session.resume()
            seconds["loaded"] = time.perf_counter() - begun
            found = session.digests()
        first = session.progress.step

        def safe() -> None:
            seconds["safe"] = time.perf_counter() - begun

        def step(number: int) -> float:
            nonlocal begun, found
            event("step", step=number)
            loss = session.step()
            if number + 1 == options.saves_after and not options.resume:
                found = session.digests()
                begun = time.perf_counter()
                session.save(safe)
                seconds["waited"] = time.perf_counter() - begun
            return loss

        report = training.steps(options, tracker, step, first=first)
        with told():
            session.checkpoints.wait()
        event("finished")
    return report | summary(session, options, first=first) | {"states": found, "checkpoint_seconds": seconds}


def summary(session: Session, options: ZeroOptions, *, first: int) -> dict[str, Any]:
    """What a rank reports beside what was measured."""
    prediction = predict(
        session.pieces,
        stage=options.stage,
        ranks=session.ranks,
        precision=options.precision,
        micro_batches=options.accumulate,
    )
    return {
        "parameters": sum(piece.trained + piece.frozen for piece in session.pieces),
        "tensors": len(session.names),
        "first": first,
        "predicted": {
            "states": asdict(prediction.states),
            "communication": prediction.communication,
            "collectives": {name: asdict(count) for name, count in prediction.collectives.items()},
        },
    }


# --- the same states, whoever holds them


def assembled(parts: Sequence[Part], group: dist.ProcessGroup) -> dict[str, Tensor]:
    """Every tensor of the whole model, put together on rank 0 from the parts of all ranks.

    Raises ValueError where ranks that hold the same value do not agree, or where nobody holds one.
    """
    rank, ranks = dist.get_rank(group), dist.get_world_size(group)
    gathered: list[Any] | None = [None] * ranks if rank == 0 else None
    dist.gather_object([replace(part, local=part.local.detach().cpu()) for part in parts], gathered, group=group)
    whole: dict[str, Tensor] = {}
    filled: dict[str, Tensor] = {}
    for part in (part for own in gathered or () for part in own):
        values = whole.setdefault(part.name, torch.zeros(part.shape, dtype=part.local.dtype))
        there = filled.setdefault(part.name, torch.zeros(part.shape, dtype=torch.bool))
        box = tuple(slice(start, start + n) for start, n in zip(part.offsets, part.local.shape, strict=True))
        if bool((there[box] & (values[box] != part.local)).any()):
            raise ValueError(f"ranks disagree on {part.name}")
        values[box], there[box] = part.local, True
    for name, there in filled.items():
        if not bool(there.all()):
            raise ValueError(f"no rank holds all of {name}")
    return whole


def digests(tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """Equal digests: equal to the last bit."""
    return {
        name: hashlib.sha256(each.reshape(-1).view(torch.uint8).numpy().data).hexdigest()
        for name, each in sorted(tensors.items())
    }


# --- the lab: two runs of this script


def conduct(
    options: CheckpointOptions, *, ranks: int, timeout: float, on_row: OnRow | None, on_output: OnOutput | None
) -> LabRun:
    """Save on `ranks` ranks, load on `load_ranks`, and compare; with `resume` only load, on `ranks`."""
    from labs.runner import run

    script = Path(__file__)
    origin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="shardwise-") as place:
        folder = Path(options.checkpoints or Path(place, "checkpoints")).resolve()
        saves = replace(options, checkpoints=str(folder))
        loads = replace(saves, resume=True, stage=options.stage if options.load_stage is None else options.load_stage)

        def one(settings: CheckpointOptions, number: int, name: str) -> list[dict[str, Any]]:
            where = Path(place, name)
            where.mkdir()
            watching = Reader(where, ranks=number, on_row=on_row, origin=origin) if on_row else nullcontext()
            with watching:
                if name == "load":
                    tell(where, "restarting", ranks=number)
                words = settings.arguments()
                ended = run(script, ranks=number, arguments=words, timeout=timeout, on_output=on_output, folder=where)
            return [cast("dict[str, Any]", each.value) for each in ended.ranks]

        saved = one(saves, ranks, "save")
        if options.resume:
            return LabRun(data=together("checkpoint", options, saved, reference_losses=[]), rows={})
        step = latest(folder)
        assert step is not None
        boxes = contents(folder, step)
        files = {each.name: each.stat().st_size for each in sorted((folder / f"step-{step}").iterdir())}
        loaded = one(loads, options.load_ranks, "load")
        rows = read_rows(Path(place, "save"))
        events = [each for name in ("save", "load") for each in happened(Path(place, name), origin=origin)]
    alone = run(script, ranks=1, arguments=["--reference", str(ranks), *options.arguments()], timeout=timeout)
    losses = cast("dict[str, Any]", alone.ranks[0].value)["losses"]

    states = [reports[0].pop("states") for reports in (saved, loaded)]
    seconds = saved[0]["checkpoint_seconds"] | loaded[0]["checkpoint_seconds"]
    uninterrupted, first = saved[0]["losses"][step:], loaded[0]
    formula = checkpoint_bytes(
        parameters=first["parameters"], precision=options.precision, tensors=first["tensors"], generators=ranks
    )
    data = together("checkpoint", options, saved, reference_losses=losses)
    data["checkpoint"] = {
        "step": step,
        "bytes": sum(each.bytes for each in boxes),
        "predicted": formula,
        "files": files,
        "boxes": [asdict(each) for each in boxes if each.name.startswith("model.")],
        "seconds": seconds,
    }
    data["resumed"] = {
        "layout": loads.layout(options.load_ranks),
        "step": first["first"],
        "losses": first["losses"],
        "same_states": states[0] == states[1],
        "states": len(states[0]),
        "largest_difference": max(abs(a - b) for a, b in zip(uninterrupted, first["losses"], strict=True)),
    }
    data["events"] = [each.as_dict() for each in events]
    return LabRun(data=data, rows=rows)


def happened(folder: Path, *, origin: float) -> list[Event]:
    """All events of a run; seconds since `origin`."""
    with closing(Follower(folder, ranks=MAX_RANKS)) as follower:
        return follower.new(origin=origin)


def reference(options: ZeroOptions, *, ranks: int) -> list[float]:
    """The same examples on one process, without any of it."""
    progress = Progress(global_batch=options.global_batch(ranks), seed=options.seed)
    came = [progress := progress.further() if step else progress for step in range(options.steps)]

    def whole_batch(model: GPT, step: int) -> float:
        batch = examples(came[step].taken(options.sequence), sequence=options.sequence)
        loss: Tensor = model(*batch)
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.item()

    return training.alone(options, whole_batch)


def at_rest(options: ZeroOptions, *, ranks: int, rank: int = 0) -> Bytes:  # noqa: ARG001
    """What the formula says that a rank holds as the optimizer step begins. A copy that is saved rests elsewhere."""
    with torch.device("meta"):
        pieces = pieces_of(GPT(training.shape_of(options)).pieces)
    states = predict(pieces, stage=options.stage, ranks=ranks, precision=options.precision).states
    return Bytes(parameters=states.parameters, gradients=states.gradients, optimizer_states=states.optimizer_states)


if __name__ == "__main__":
    training.main(CheckpointOptions, train, reference)
