#!/bin/bash
# A sweep as a Slurm job, with Ray on its nodes; all flags are those of `recon-tf sweep`:
#   sbatch --nodes=4 --gpus-per-node=4 scripts/slurm_sweep.sh --configs dmc --gpus 1 --cpus 8
# Submit it in a folder that the nodes share and that holds .venv. A job that ran out of time, or
# was requeued, goes on where it was.
#SBATCH --job-name=recon
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=32
#SBATCH --time=24:00:00
#SBATCH --signal=B:TERM@300
#SBATCH --requeue
set -euo pipefail
cd "$SLURM_SUBMIT_DIR"
source .venv/bin/activate
export RAY_worker_niceness=0 # Ray's 15 would let all else on the nodes go first

mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
address=${nodes[0]}:$((20000 + SLURM_JOB_ID % 20000))
resources=(--num-cpus "$SLURM_CPUS_PER_TASK" --num-gpus "${SLURM_GPUS_ON_NODE:-0}")
start() { # on one node, until the job ends
  srun --nodes=1 --ntasks=1 --nodelist="$1" ray start "${@:2}" "${resources[@]}" --block &
}

start "${nodes[0]}" --head --port "${address#*:}"
until ray status --address "$address" >/dev/null 2>&1; do sleep 2; done
for node in "${nodes[@]:1}"; do
  start "$node" --address "$address"
done

recon-tf sweep --address "$address" "$@" &
sweep=$!
trap 'kill -TERM $sweep' TERM # five minutes before the end: its runs save and stop
code=0
while kill -0 $sweep 2>/dev/null; do # a signal ends `wait` as well
  wait $sweep && code=0 || code=$?
done
exit $code
