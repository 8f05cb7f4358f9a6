from torch import Tensor

from labs.exercises.mesh import Fault, Mesh


def find(mesh: Mesh) -> Fault | None:
    """The first fault of a training step, the same on every rank; None where all ranks equal one process."""
    # What is wrong in one phase makes everything after it wrong. So: phases outside, parameters inside.
    for phase in mesh.phases:
        for name in mesh.names:
            mine, right = mesh.mine(phase, name), mesh.right(phase, name)

            # One rank may be wrong and three right: all must learn of it here, or the one would return alone.
            wrong = mesh.gather(not same(mine, right))
            ranks = [rank for rank, each in enumerate(wrong) if each]
            if not ranks:
                continue

            # A rank that is right agrees to every rule; one that is wrong, to the one that says what it holds.
            for rule, value in (
                ("skipped", mesh.before(phase, name)),
                ("added", 2 * right),
                ("swapped", mesh.neighbour(phase, name)),
            ):
                if all(mesh.gather(mesh.rank not in ranks or same(mine, value))):
                    return Fault(phase, name, ranks, rule)
    return None


def same(a: Tensor, b: Tensor) -> bool:
    """Equal but for rounding, measured by the largest value: ranks add in another order than one process."""
    return bool((a - b).abs().max() <= 1e-4 * b.abs().max())
