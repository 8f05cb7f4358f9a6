import torch
import torch.distributed as dist


def alarm(seconds: float, norm: float, *, group: dist.ProcessGroup) -> tuple[str, int] | None:
    """What is wrong in this step and on which rank; None if nothing is. The same verdict on every rank.

    Every rank calls this in every step with its own numbers: the seconds that its part of the step took before it met
    the others, and the norm of its own gradient before the mean was taken.

    - ("bad-gradient", rank): a norm that is no finite number, or more than 10 times as large or as small as usual
    - ("straggler", rank): seconds of more than twice what is usual; looked for only where no gradient is bad
    - usual: what the rank in the middle has. At most one rank is wrong at a time

    dist.all_gather_single(whole, own, group=group) puts the numbers of all ranks into `whole`, one after the other.
    """
    raise NotImplementedError("Write alarm: gather the two numbers of every rank, then compare each with the usual.")
