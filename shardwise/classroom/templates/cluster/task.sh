#!/bin/bash
# Grades one submission of @{course}: the one in line $1 of jobs.tsv. The same wherever it runs: a second time it
# writes the same file anew, whole or not at all.
set -euo pipefail
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
course=$(cd -- "$here/.." && pwd)

IFS=$'\t' read -r student assignment exercise language submission out < <(sed -n "${1:?the number of a line}p" "$here/jobs.tsv")
test -n "$out"
mkdir -p -- "$course/${out%/*}"

# Whose code does not hold has a result too: then grade-one says 1. Everything above is a failure of the grading.
code=0
shardwise classroom grade-one "$course/$submission" --course "$course" --student "$student" \
  --assignment "$assignment" --exercise "$exercise" --lang "$language" --out "$course/$out" || code=$?
test "$code" -le 1
test -s "$course/$out"
