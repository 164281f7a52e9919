#!/bin/bash
# A Ray cluster on Slurm for a trainer service's runs. On a login node, in a checkout that all nodes see, after `make setup`:
#
#   export RAY_AUTH_TOKEN=$(openssl rand -hex 24) && sbatch examples/clusters/slurm.sh
#
# The trainer service has RAY_ADDRESS=http://FIRST-NODE:8265 and RATCHET_TRAINER_RAY_TOKEN=$RAY_AUTH_TOKEN, and its
# RATCHET_TRAINER_RUNS_FOLDER is a folder that the first node sees, too. On CPU `export RANKS=1` says how many ranks a node has.
# When the job is told to end, runs save after the step under way, and wait for the next cluster.
#SBATCH --job-name=ratchet-ray
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --exclusive
#SBATCH --signal=B:USR1@180
#SBATCH --requeue
#SBATCH --output=ratchet-ray-%j.log
set -euo pipefail

ray=$PWD/.venvs/trainer/bin/ray
head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
others=$((SLURM_JOB_NUM_NODES - 1))
started=(--block --disable-usage-stats ${RANKS:+--num-gpus="$RANKS"})
export RAY_AUTH_MODE=token

drain() {
  trap "" USR1
  for id in $("$ray" list nodes --address "http://$head:8265" --filter state=ALIVE --format json | grep -oP '"node_id": "\K[0-9a-f]+'); do
    "$ray" drain-node --address "$head:6379" --node-id "$id" --reason DRAIN_NODE_REASON_PREEMPTION \
      --reason-message "the Slurm job ends" --deadline-remaining-seconds 170
  done
}
trap drain USR1  # srun would pass a TERM on to Ray

srun --overlap --nodes=1 --ntasks=1 --nodelist="$head" \
  "$ray" start --head --port=6379 --dashboard-host=0.0.0.0 "${started[@]}" &
until "$ray" status --address "$head:6379" >/dev/null 2>&1; do sleep 2; done
[ "$others" = 0 ] || srun --overlap --nodes="$others" --ntasks="$others" --exclude="$head" \
  "$ray" start --address="$head:6379" "${started[@]}" &
while [ -n "$(jobs -r)" ]; do wait || true; done
