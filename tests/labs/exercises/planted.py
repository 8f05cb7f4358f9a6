"""Runs in the ranks: the capstone's solution on many planted faults. Reports those that it does not name."""

from __future__ import annotations

import torch

from labs.exercises.capstone.check import KINDS
from labs.exercises.capstone.solution import find
from labs.exercises.mesh import LAYOUT, Mesh, planted
from labs.runner import rank as this
from labs.strategies.parallel import mesh_of

if __name__ == "__main__":
    with this.group():
        devices = mesh_of(LAYOUT, device="cpu")
        missed = []
        for seed in (1, 2):
            for phase, rule in sorted({*KINDS[0], *KINDS[1]}):
                for all_ranks in (True, False):
                    fault = planted(seed, phase, rule, all_ranks=all_ranks)
                    if find(Mesh(seed, fault, devices=devices)) != fault:
                        missed.append(f"seed {seed}: {fault}")
            if find(Mesh(seed, None, devices=devices, dtype=torch.float32)) is not None:
                missed.append(f"seed {seed}: no fault")
        this.report(missed)
