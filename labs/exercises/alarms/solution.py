import torch
import torch.distributed as dist


def alarm(seconds: float, norm: float, *, group: dist.ProcessGroup) -> tuple[str, int] | None:
    """What is wrong in this step and on which rank; None if nothing is. The same verdict on every rank."""
    # Every rank's own numbers, before anything is taken a mean of: a mean cannot say whose it was.
    own = torch.tensor([seconds, norm], dtype=torch.float64)
    whole = torch.empty(2 * dist.get_world_size(group), dtype=torch.float64)
    dist.all_gather_single(whole, own, group=group)
    times, norms = whole.view(-1, 2).unbind(1)

    # The median stays where it is, however far off one rank may be. NaN fails each comparison, so the question is
    # which norms are all right, and not which are bad.
    usual = norms[norms.isfinite()].median()
    sound = (norms <= 10 * usual) & (norms >= usual / 10)
    if not sound.all():
        return "bad-gradient", int((~sound).int().argmax())

    slow = times > 2 * times.median()
    return ("straggler", int(slow.int().argmax())) if slow.any() else None
