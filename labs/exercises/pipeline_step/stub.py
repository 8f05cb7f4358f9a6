import torch
import torch.distributed as dist
from torch import Tensor

from labs.exercises.stages import Stage
from labs.strategies.schedules import Order


def pipeline_step(stage: Stage, order: Order) -> Tensor | None:
    """Do what `order` says; every parameter's grad then is that of the mean loss of all micro-batches.

    Every rank calls this with its own stage and order. Returns the mean loss on the last stage and None on the others.

    - action.kind, action.micro_batch: "F" or "B", and k
    - stage.chunk(x): this rank's layers; x of the first stage is stage.inputs[k], of the others what the stage before
      has sent. On the last stage stage.losses[k](y) is the mean loss of micro-batch k
    - stage.number, stage.stages: which stage of how many; it is also the rank in stage.group
    - dist.isend(tensor, group=stage.group, group_dst=to): begins to send; the tensor may not change until wait() has
      been called on what this returns
    - dist.recv(tensor, group=stage.group, group_src=source): receives into a tensor of shape stage.shape, in float64
    - y.backward(g): back from y, whose gradient is g; without g from a loss. Adds to the grad of parameters, and of an
      x that requires it
    - stage.shared, stage.pair: a weight that the first and the last stage both use, and the group of these two; None
      on other stages, and in models that share none
    """
    raise NotImplementedError("Write pipeline_step: receive, compute and send for each action of the order.")
