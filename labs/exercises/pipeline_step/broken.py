import torch
import torch.distributed as dist
from torch import Tensor

from labs.exercises.stages import Stage
from labs.strategies.schedules import Order


def pipeline_step(stage: Stage, order: Order) -> Tensor | None:
    """Do what `order` says; every parameter's grad then is that of the mean loss of all micro-batches."""
    before, after = stage.number - 1, stage.number + 1
    first, last = before < 0, after == stage.stages
    kept, sent, total = {}, [], None

    def send(tensor: Tensor, to: int) -> None:
        sent.append(dist.isend(tensor, group=stage.group, group_dst=to))

    def receive(source: int) -> Tensor:
        tensor = torch.empty(stage.shape, dtype=torch.float64)
        dist.recv(tensor, group=stage.group, group_src=source)
        return tensor

    for action in order:
        k = action.micro_batch
        if action.kind == "F":
            x = stage.inputs[k] if first else receive(before).requires_grad_()
            y = stage.chunk(x)
            if last:
                y = stage.losses[k](y) / len(stage.losses)
                total = y.detach() if total is None else total + y.detach()
            else:
                send(y.detach(), after)
            kept[k] = x, y
        else:
            x, y = kept.pop(k)
            y.backward(None if last else receive(after))
            if not first:
                send(x.grad, before)

    # Both stages began with the same weight, so it needs no exchange.
    for work in sent:
        work.wait()
    return total
