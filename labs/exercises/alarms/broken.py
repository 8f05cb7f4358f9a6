import torch
import torch.distributed as dist


def alarm(seconds: float, norm: float, *, group: dist.ProcessGroup) -> tuple[str, int] | None:
    """What is wrong in this step and on which rank; None if nothing is. The same verdict on every rank."""
    own = torch.tensor([seconds, norm], dtype=torch.float64)
    whole = torch.empty(2 * dist.get_world_size(group), dtype=torch.float64)
    dist.all_gather_single(whole, own, group=group)
    times, norms = whole.view(-1, 2).unbind(1)

    # What the ranks have on average is what is usual.
    bad = ~norms.isfinite() | (norms > 10 * norms.mean()) | (10 * norms < norms.mean())
    if bad.any():
        return "bad-gradient", int(norms.nan_to_num(nan=torch.inf).argmax())

    slow = times > 2 * times.mean()
    return ("straggler", int(slow.int().argmax())) if slow.any() else None
