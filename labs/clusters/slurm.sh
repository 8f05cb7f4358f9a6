#!/bin/bash
#SBATCH --job-name=@{name}
#SBATCH --nodes=@{nodes}
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=@{ranks_per_node}@{slurm_gpus}
#SBATCH --time=@{minutes}
#SBATCH --output=%x-%j.log

# Axes whose groups lie inside a node: @{inside}. Across nodes: @{across}.
set -euo pipefail
export OMP_NUM_THREADS=1

# All ranks meet on the first node of the allocation, at a port that no other job of it has.
mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
first=${nodes[0]}
port=$((20000 + SLURM_JOB_ID % 20000))

# One torchrun on each node, which starts the ranks there. If one of them ends badly, the job ends.
srun --kill-on-bad-exit=1 torchrun \
  --nnodes="$SLURM_JOB_NUM_NODES" \
  --nproc-per-node=@{ranks_per_node} \
  --rdzv-id="$SLURM_JOB_ID" \
  --rdzv-backend=c10d \
  --rdzv-endpoint="$first:$port" \
  -m labs.@{lab}@{words}
