from torch import Tensor

from labs.exercises.mesh import Fault, Mesh


def find(mesh: Mesh) -> Fault | None:
    """The first fault of a training step, the same on every rank; None where all ranks equal one process."""
    # Take the parameters in the order of the model: the first one that is wrong is nearest to the fault.
    for name in mesh.names:
        for phase in mesh.phases:
            mine, right = mesh.mine(phase, name), mesh.right(phase, name)
            wrong = mesh.gather(not same(mine, right))
            ranks = [rank for rank, each in enumerate(wrong) if each]
            if not ranks:
                continue
            for rule, value in (
                ("skipped", mesh.before(phase, name)),
                ("added", 2 * right),
                ("swapped", mesh.neighbour(phase, name)),
            ):
                if all(mesh.gather(mesh.rank not in ranks or same(mine, value))):
                    return Fault(phase, name, ranks, rule)
            return Fault(phase, name, ranks, "skipped")
    return None


def same(a: Tensor, b: Tensor) -> bool:
    """Equal but for rounding, measured by the largest value: ranks add in another order than one process."""
    return bool((a - b).abs().max() <= 1e-4 * b.abs().max())
