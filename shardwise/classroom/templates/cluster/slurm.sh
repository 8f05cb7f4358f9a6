#!/bin/bash
#SBATCH --job-name=@{name}
#SBATCH --array=1-@{jobs}%@{at_once}
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=@{cpus}
#SBATCH --mem=@{memory}M
#SBATCH --time=@{minutes}
#SBATCH --output=@{folder}/%x-%A-%a.log
#SBATCH --requeue

# Each task grades one submission, in a sandbox that has no network: what the student's code may do is the same as on
# the machine of the teacher. The course folder is on a file system that all nodes see.
set -euo pipefail
export OMP_NUM_THREADS=1
export PATH=@{path}:$PATH
export TMPDIR=${SLURM_TMPDIR:-/tmp}
bash @{task} "$SLURM_ARRAY_TASK_ID"
