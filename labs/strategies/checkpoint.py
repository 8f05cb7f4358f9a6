"""Sharded checkpoints with torch.distributed.checkpoint: a rank writes its own parts, any number of ranks loads them.

    step-<n>/__<r>_0.distcp   after n steps, the parts that rank r wrote
    step-<n>/.metadata        where each part lies in the whole model, and in which file
    step-<n>/SHA256SUMS       of all files: `sha256sum -c SHA256SUMS` checks them
    saving-<n>/               a save under way, or what an interrupted one has left
    latest                    names the last good checkpoint, written last

A save never touches an earlier checkpoint. Whoever is killed at whatever moment, `latest` names a whole one.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import shutil
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, cast

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner, DefaultSavePlanner
from torch.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    TensorProperties,
    TensorStorageMetadata,
)
from torch.distributed.checkpoint.planner import (
    LoadItemType,
    LoadPlan,
    ReadItem,
    SavePlan,
    TensorWriteData,
    WriteItem,
    WriteItemType,
)
from torch.distributed.checkpoint.planner_helpers import create_read_items_for_chunk_list
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import async_save
from torch.distributed.checkpoint.storage import WriteResult
from torch.profiler import record_function

from labs.strategies.parts import Part

LATEST, SUMS, METADATA, PROGRESS = "latest", "SHA256SUMS", ".metadata", "progress"
Progress = dict[str, Any]


# --- in torch's words: what to write, what to read


def key(part: Part) -> str:
    return f"{part.name} at {list(part.offsets)}"


def box_of(part: Part) -> ChunkStorageMetadata:
    return ChunkStorageMetadata(offsets=torch.Size(part.offsets), sizes=part.local.shape)


class SavePlanner(DefaultSavePlanner):
    """Says of every part where it lies. Where several ranks hold the same, torch lets one of them write it."""

    def __init__(self, parts: Sequence[Part]) -> None:
        super().__init__(flatten_state_dict=False, flatten_sharded_tensors=False)
        self.parts = parts

    def create_local_plan(self) -> SavePlan:
        items = [WriteItem(index=MetadataIndex(PROGRESS), type=WriteItemType.BYTE_IO)]
        for part in self.parts:
            index = MetadataIndex(part.name, torch.Size(part.offsets))
            properties, shape = TensorProperties(dtype=part.local.dtype), torch.Size(part.shape)
            box = TensorWriteData(chunk=box_of(part), properties=properties, size=shape)
            items.append(WriteItem(index=index, type=WriteItemType.SHARD, tensor_data=box))
        self.plan = SavePlan(items)
        return self.plan

    def lookup_object(self, index: MetadataIndex) -> Any:
        """A part's values among those that were copied for this checkpoint."""
        return self.state_dict[index.fqn if index.offset is None else f"{index.fqn} at {list(index.offset)}"]


class LoadPlanner(DefaultLoadPlanner):
    """Asks for the boxes of this rank's parts, wherever the ranks that saved have cut.

    Raises CheckpointError for another model's checkpoint.
    """

    def __init__(self, parts: Sequence[Part]) -> None:
        super().__init__(flatten_state_dict=False, flatten_sharded_tensors=False)
        self.parts = parts

    def create_local_plan(self) -> LoadPlan:
        assert self.metadata is not None
        saved = self.metadata.state_dict_metadata
        index, nothing = MetadataIndex(PROGRESS), torch.Size((0,))
        progress = ReadItem(LoadItemType.BYTE_IO, index, nothing, index, nothing, nothing)
        items = [progress] if PROGRESS in saved else []  # what only torch has saved has none
        for number, part in enumerate(self.parts):
            name = part.name
            if name not in saved and name.startswith("rng."):
                continue  # a rank that was not there keeps the random numbers it has
            if name not in saved and name.endswith(".master"):
                name = f"model.{name[len('optim.state.') : -len('.master')]}"  # it was the parameter itself
            found = saved.get(name)
            if not isinstance(found, TensorStorageMetadata):
                raise CheckpointError("no-tensor", {"name": name})
            if tuple(found.size) != part.shape:
                raise CheckpointError("other-shape", {"name": name, "saved": [*found.size], "wanted": [*part.shape]})
            for item in create_read_items_for_chunk_list(name, found, [box_of(part)]):
                items.append(replace(item, dest_index=MetadataIndex(str(number))))
        return LoadPlan(items)

    def create_global_plan(self, global_plan: list[LoadPlan]) -> list[LoadPlan]:
        """On one rank, which sees what all ranks ask for: no parameter may be left over."""
        assert self.metadata is not None
        asked = {item.storage_index.fqn for plan in global_plan for item in plan.items}
        for name in self.metadata.state_dict_metadata:
            if name.startswith("model.") and name not in asked:
                raise CheckpointError("left-over", {"name": name})
        return global_plan

    def lookup_tensor(self, index: MetadataIndex) -> Tensor:
        return self.parts[int(index.fqn)].local

    def load_bytes(self, read_item: ReadItem, value: io.BytesIO) -> None:
        self.state_dict[PROGRESS] = torch.load(value, weights_only=True)


class Writer(FileSystemWriter):
    """Writes a file for each rank into a new folder, and commits them all at once: once every file is safe on the disk,
    the folder gets its lasting name, and only then does `latest` name it.
    """

    def __init__(self, folder: Path, step: int, *, keep: int) -> None:
        super().__init__(folder / f"saving-{step}")
        self.folder, self.step, self.keep = folder, step, keep

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        """On one rank, before any writes: what an interrupted save has left goes."""
        if latest(self.folder) == self.step:
            raise CheckpointError("exists", {"step": self.step})
        for left in self.folder.glob("saving-*"):
            shutil.rmtree(left)
        Path(self.path).mkdir()
        return super().prepare_global_plan(plans)

    def write_data(self, plan: SavePlan, planner: Any) -> Any:
        """This rank's file, and its checksum beside it."""
        written = super().write_data(plan, planner)
        for name in {each.storage_data.relative_path for each in written.value()}:
            write(Path(self.path, name + ".sum"), sum_of(Path(self.path, name)))
        return written

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """On one rank, when all have written: the commit. Then what is older than the last `keep` goes."""
        super().finish(metadata, results)
        place, name = Path(self.path), f"step-{self.step}"
        own = sorted(place.glob("*.sum"))
        write(place / SUMS, "".join([each.read_text() for each in own] + [sum_of(place / METADATA)]))
        for each in own:
            each.unlink()
        shutil.rmtree(self.folder / name, ignore_errors=True)  # not the latest: no marker has named it
        place.rename(self.folder / name)
        write(self.folder / LATEST, name + "\n")
        for step in [each for each in steps_in(self.folder) if each <= self.step][: -self.keep]:
            shutil.rmtree(self.folder / f"step-{step}")


def write(path: Path, text: str) -> None:
    """At every moment, a power failure included, the file has its old content or the new one."""
    new = path.with_name(path.name + ".new")
    with new.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


def sum_of(path: Path) -> str:
    """A line as sha256sum writes and checks it."""
    with path.open("rb") as file:
        return f"{hashlib.file_digest(file, 'sha256').hexdigest()}  {path.name}\n"


# --- the checkpoints of a run


class CheckpointError(Exception):
    """What is wrong, by an id, with values for a sentence. Earlier checkpoints are untouched, no part was filled."""

    said: ClassVar = {
        "none": "there is no checkpoint of step {step} in {folder}. Whole ones: {whole}",
        "exists": "the checkpoint of step {step} is the latest and is not overwritten; roll back first",
        "no-file": "checkpoint of step {step}: {file} is missing. Whole ones: {whole}",
        "damaged": "checkpoint of step {step}: {file} is not what was written. Whole ones: {whole}",
        "no-tensor": "the checkpoint has no {name}: it is another model's",
        "other-shape": "{name} is {saved} in the checkpoint and {wanted} here: it is another model's",
        "left-over": "no rank asks for {name} of the checkpoint: it is another model's",
        "not-saved": "rank {rank} could not write the checkpoint of step {step}: {detail}",
        "not-loaded": "rank {rank} could not read the checkpoint of step {step}: {detail}",
    }

    def __init__(self, problem: str, values: dict[str, Any]) -> None:
        super().__init__(problem, values)
        self.problem, self.values = problem, values

    def __str__(self) -> str:
        return self.said[self.problem].format(**self.values)


class Checkpoints:
    """The checkpoints of one run, in a folder that all ranks see. The last `keep` of them stay.

    All ranks call each method together. `save` returns as soon as this rank's parts are copied to host memory; a thread
    writes the copies while training goes on. It talks to the other ranks on a group of its own: its messages and
    training's come in no order that all ranks share.
    """

    def __init__(self, folder: Path, *, keep: int = 2) -> None:
        self.folder, self.keep = folder, keep
        self.group = dist.new_group(backend="gloo")
        self.rank, self.ranks = dist.get_rank(self.group), dist.get_world_size(self.group)
        self.pending: Future[Any] | None = None
        self.step = -1
        folder.mkdir(parents=True, exist_ok=True)

    def save(
        self, parts: Sequence[Part], progress: Progress, *, step: int, then: Callable[[], None] = lambda: None
    ) -> None:
        """Begin to save. `progress` is what all ranks know of the run; `then` is called when the checkpoint is safe.

        Waits for the save before this one. Raises CheckpointError where that has failed.
        """
        self.wait()
        own = [part for part in parts if part.saves]
        values = {key(part): part.local for part in own} | {PROGRESS: progress}
        writer, planner = Writer(self.folder, step, keep=self.keep), SavePlanner(own)
        with record_function("offloaded"):  # the copies; when async_save returns, they are made
            pending = async_save(values, storage_writer=writer, planner=planner, process_group=self.group)
        self.step, self.pending = step, cast("Future[Any]", pending)
        self.pending.add_done_callback(lambda done: None if done.exception() else then())

    def wait(self) -> None:
        """Until what was begun is safe. Raises CheckpointError where a rank could not write."""
        pending, self.pending = self.pending, None
        try:
            if pending is not None:
                pending.result()
        except CheckpointException as error:
            if self.rank == 0:
                shutil.rmtree(self.folder / f"saving-{self.step}", ignore_errors=True)
            raise first_of(error, "not-saved", step=self.step) from error

    def latest(self) -> int | None:
        """The step of the last good checkpoint, as the first rank reads it; None where there is none yet."""
        found = [latest(self.folder)]
        dist.broadcast_object_list(found, src=0, group=self.group)
        return found[0]

    def load(self, parts: Sequence[Part], *, step: int | None = None) -> Progress:
        """Fill the parts from the latest checkpoint, or that of `step`, and tell the progress that was saved with it.

        Every file is checked first, each by one rank. Raises CheckpointError, the same on every rank.
        """
        chosen = self.latest() if step is None else step
        found: list[CheckpointError | None] = [None] * self.ranks
        own = problem_in(self.folder, chosen, part=self.rank, parts=self.ranks)
        dist.all_gather_object(found, own, group=self.group)
        for error in filter(None, found):
            raise error
        state: dict[str, Any] = {PROGRESS: {}}
        reader = FileSystemReader(self.folder / f"step-{chosen}")
        try:
            load(state, storage_reader=reader, planner=LoadPlanner(parts), process_group=self.group)
        except CheckpointException as failed:
            raise first_of(failed, "not-loaded", step=chosen) from failed
        return cast("Progress", state[PROGRESS])

    def roll_back(self, step: int) -> None:
        """The checkpoint of `step` is the latest from here on, and later ones go. Raises CheckpointError as `load`."""
        self.wait()
        found = [problem_in(self.folder, step) if self.rank == 0 else None]
        if self.rank == 0 and not found[0]:
            write(self.folder / LATEST, f"step-{step}\n")
            for later in [each for each in steps_in(self.folder) if each > step]:
                shutil.rmtree(self.folder / f"step-{later}")
        dist.broadcast_object_list(found, src=0, group=self.group)
        if found[0]:
            raise found[0]


def latest(folder: Path) -> int | None:
    """The step of the last good checkpoint; None where there is none yet."""
    with contextlib.suppress(OSError, ValueError):
        return int((folder / LATEST).read_text().strip().removeprefix("step-"))
    return None


def steps_in(folder: Path) -> list[int]:
    """The steps of all checkpoints, from the first to the last."""
    return sorted(int(place.name[5:]) for place in folder.glob("step-*") if place.name[5:].isdecimal())


def wrong_file(place: Path, *, part: int = 0, parts: int = 1) -> tuple[str, str] | None:
    """The first file of a checkpoint that is missing or damaged, and which it is; looks at every `parts`-th only."""
    name = SUMS
    with contextlib.suppress(OSError):
        lines = (place / SUMS).read_text(errors="replace").splitlines(keepends=True)
        if not lines or not lines[-1].endswith(f"  {METADATA}\n"):
            return "damaged", SUMS
        for line in lines[part::parts]:
            name = line.rstrip("\n").split("  ")[-1]
            if sum_of(place / name) != line:
                return "damaged", name
        return None
    return "no-file", name


def problem_in(folder: Path, step: int | None, *, part: int = 0, parts: int = 1) -> CheckpointError | None:
    """What is wrong with the checkpoint of a step, and which others could be loaded in its place."""
    wrong = wrong_file(folder / f"step-{step}", part=part, parts=parts)
    if wrong is None:
        return None
    whole = [each for each in steps_in(folder) if each != step and wrong_file(folder / f"step-{each}") is None]
    problem = "none" if step not in steps_in(folder) else wrong[0]
    return CheckpointError(problem, {"step": step, "folder": str(folder), "file": wrong[1], "whole": whole})


def first_of(error: CheckpointException, problem: str, **values: Any) -> CheckpointError:
    """What went wrong on the first of the ranks where something did, out of what torch tells of all."""
    rank, (cause, _) = min(error.failures.items())
    if isinstance(cause, CheckpointError):
        return cause
    return CheckpointError(problem, {"rank": rank, "detail": str(cause), **values})


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A box as it lies in a checkpoint: of which tensor, of what shape, and in which file."""

    name: str
    shape: tuple[int, ...]
    offsets: tuple[int, ...]
    sizes: tuple[int, ...]
    bytes: int
    file: str


def contents(folder: Path, step: int) -> list[Stored]:
    """All boxes of a checkpoint, read from its metadata alone."""
    metadata = FileSystemReader(folder / f"step-{step}").read_metadata()
    return [
        Stored(
            name=name,
            shape=tuple(found.size),
            offsets=tuple(box.offsets),
            sizes=tuple(box.sizes),
            bytes=box.sizes.numel() * found.properties.dtype.itemsize,
            file=metadata.storage_data[MetadataIndex(name, box.offsets)].relative_path,
        )
        for name, found in metadata.state_dict_metadata.items()
        if isinstance(found, TensorStorageMetadata)
        for box in found.chunks
    ]


def read_whole(folder: Path, step: int) -> tuple[dict[str, Tensor], Progress]:
    """Every tensor of a checkpoint, whole, and its progress: in one process, whatever ranks have saved it."""
    if error := problem_in(folder, step):
        raise error
    reader = FileSystemReader(folder / f"step-{step}")
    state: dict[str, Any] = {PROGRESS: {}}
    saved = reader.read_metadata().state_dict_metadata.items()
    kept = {name: found for name, found in saved if isinstance(found, TensorStorageMetadata)}
    tensors = {name: torch.empty(found.size, dtype=found.properties.dtype) for name, found in kept.items()}
    parts = [Part(name=n, shape=(*t.shape,), offsets=(0,) * t.dim(), local=t) for n, t in tensors.items()]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns that no other ranks take part
        load(state, storage_reader=reader, planner=LoadPlanner(parts), no_dist=True)
    return tensors, state[PROGRESS]
