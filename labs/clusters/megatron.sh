#!/bin/bash
#SBATCH --job-name=@{name}
#SBATCH --nodes=@{nodes}
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=@{per_node}
#SBATCH --exclusive
#SBATCH --output=%x-%j.log

# The layout of @{title} (@{source}): data @{dp} x pipeline @{pp} x tensor @{tp}, @{ranks} GPUs.
# The planner: @{total} on the fullest rank (stage @{stage}) of @{room} on a @{gpu}; @{parameters} parameters.
@{lacks}# Run it where Megatron-LM is checked out, with megatron-core @{version}, Transformer Engine and Apex. Its data are made up.
# Nobody ran this file for the course: there were no @{ranks} GPUs. Its flags were read back by the planner.
set -euo pipefail
export CUDA_DEVICE_MAX_CONNECTIONS=1

# All ranks meet on the first node of the allocation, at a port that no other job of it has.
mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
first=${nodes[0]}
port=$((20000 + SLURM_JOB_ID % 20000))

srun --kill-on-bad-exit=1 torchrun \
  --nnodes="$SLURM_JOB_NUM_NODES" \
  --nproc-per-node=@{per_node} \
  --rdzv-id="$SLURM_JOB_ID" \
  --rdzv-backend=c10d \
  --rdzv-endpoint="$first:$port" \
  pretrain_gpt.py \
  @{flags} \
  --mock-data \
  --train-iters 20 \
  --lr 1e-4 \
  --log-interval 1
