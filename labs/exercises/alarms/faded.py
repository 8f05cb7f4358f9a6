import torch
import torch.distributed as dist


def alarm(seconds: float, norm: float, *, group: dist.ProcessGroup) -> tuple[str, int] | None:
    """What is wrong in this step and on which rank; None if nothing is. The same verdict on every rank."""
    # Every rank's own numbers, before anything is taken a mean of: a mean cannot say whose it was.
    own = torch.tensor([seconds, norm], dtype=torch.float64)
    whole = own.repeat(dist.get_world_size(group))
    # Gap 1. Which rule does the missing line keep? Every rank judges from the numbers of all ranks.
    times, norms = whole.view(-1, 2).unbind(1)

    # Gap 2. Which rule does the next line break? What is usual may not be moved by the rank that is wrong.
    usual = norms.max()
    sound = (norms <= 10 * usual) & (norms >= usual / 10)
    if not sound.all():
        return "bad-gradient", int((~sound).int().argmax())

    slow = times > 2 * times.median()
    return ("straggler", int(slow.int().argmax())) if slow.any() else None
