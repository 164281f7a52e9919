#!/usr/bin/env bash
# Builds the environments that are missing or out of date: scripts/setup.sh [light] [trainer] [rollout] [clients] [inspect] [sandbox-NAME]
#
# clients holds those of OpenAI's API that the gateway's tests run (services/gateway/clients), inspect the reader of logs
# that opens exported episodes there (libs/episodes/inspect).
# sandbox-NAME is what programs in the sandbox may import, pinned in services/sandbox/runtimes/NAME/requirements.lock.
# DEVICE=cpu (default) or cuda chooses the lock files of trainer and rollout. An environment is stamped when it is
# whole, so an interrupted set-up is simply run again. Everything lands in .venvs/, nothing elsewhere.
set -euo pipefail
cd "$(dirname "$0")/.."

DEVICE=${DEVICE:-cpu}
UV_VERSION=0.13.8
wanted=("$@")
[ ${#wanted[@]} -gt 0 ] || wanted=(light trainer rollout sandbox-numpy sandbox-math)

say() { printf 'setup: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }

[ "$DEVICE" = cpu ] || [ "$DEVICE" = cuda ] || fail "DEVICE=$DEVICE is not known: use DEVICE=cpu or DEVICE=cuda."
python=$(command -v python3.11 || true)
[ -n "$python" ] || fail "python3.11 is not on the PATH. On Debian 12: apt-get install python3.11 python3.11-venv"
[ "$DEVICE" = cpu ] || command -v gcc >/dev/null \
  || fail "GPUs need a C compiler: Triton builds what it launches on them. On Debian 12: apt-get install g++ python3.11-dev"
[ "$(uname -s)" = Linux ] || fail "Ratchet runs on Linux (the sandbox needs its namespaces); this is $(uname -s)."

mkdir -p .venvs
exec 9>.venvs/.lock
flock -n 9 || { say "another set-up is running here; waiting for it."; flock 9; }

lock_of() { # environment -> its lock file
  case $1 in
    light) echo requirements-light.lock ;;
    trainer | rollout) echo "services/$1/requirements-$DEVICE.lock" ;;
    clients) echo services/gateway/clients/requirements.lock ;;
    inspect) echo libs/episodes/inspect/requirements.lock ;;
    sandbox-*) echo "services/sandbox/runtimes/${1#sandbox-}/requirements.lock" ;;
    *) fail "no environment '$1': choose from light, trainer, rollout, clients, inspect, sandbox-NAME." ;;
  esac
}
packages_of() { # environment -> the parts of this project that it runs, installed in place
  case $1 in
    light) echo libs/* services/* ;;
    trainer | rollout) python3.11 scripts/parts.py "services/$1" ;;
  esac
}
gib_of() { case $1 in sandbox-bigcodebench) echo 3 ;; light | clients | inspect | sandbox-*) echo 1 ;; trainer) [ "$DEVICE" = cpu ] && echo 3 || echo 10 ;; rollout) [ "$DEVICE" = cpu ] && echo 4 || echo 14 ;; esac; }
stamp_of() { { echo "$DEVICE $UV_VERSION $PWD"; cat "$(lock_of "$1")"; for p in $(packages_of "$1"); do cat "$p/pyproject.toml"; done; } | sha256sum | cut -d' ' -f1; }
is_whole() { [ "$(cat ".venvs/$1/.stamp" 2>/dev/null)" = "$(stamp_of "$1")" ]; }

todo=()
for env in "${wanted[@]}"; do
  lock=$(lock_of "$env")
  [ -f "$lock" ] || fail "$env needs $lock, which is not there."
  is_whole "$env" || todo+=("$env")
done
[ ${#todo[@]} -gt 0 ] || exit 0

need=0
for env in "${todo[@]}"; do need=$((need + $(gib_of "$env"))); done
free=$(($(df --output=avail -k . | tail -n 1) / 1048576))
[ "$free" -ge "$need" ] || fail "$need GiB of free space are needed for ${todo[*]}, $free GiB are free in $PWD."

if ! .venvs/tools/bin/uv --version 2>/dev/null | grep -q " $UV_VERSION"; then
  say "getting uv $UV_VERSION (installs the rest)"
  rm -rf .venvs/tools
  if ! "$python" -m venv .venvs/tools 2>.venvs/venv.err; then
    rm -rf .venvs/tools
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
      say "this Python has no venv module; installing python3.11-venv"
      { apt-get update -qq && apt-get install -y -qq python3.11-venv; } >.venvs/apt.log 2>&1 \
        || fail "apt-get install python3.11-venv failed: see .venvs/apt.log"
      "$python" -m venv .venvs/tools
    else
      fail "this Python cannot make virtual environments. As root: apt-get install python3.11-venv"
    fi
  fi
  .venvs/tools/bin/pip install --quiet --disable-pip-version-check "uv==$UV_VERSION" 2>.venvs/pip.err \
    || { tail -n 3 .venvs/pip.err >&2; fail "cannot install uv: is the package index reachable (network, proxy, PIP_INDEX_URL)?"; }
fi
uv=$PWD/.venvs/tools/bin/uv

# uv does not read pip's settings: hand on a folder of local wheels and a private index when pip has them.
links=${UV_FIND_LINKS:-${PIP_FIND_LINKS:-$(.venvs/tools/bin/pip config get global.find-links 2>/dev/null || true)}}
[ -z "$links" ] || export UV_FIND_LINKS=${links// /,}
[ -z "${PIP_INDEX_URL:-}" ] || export UV_DEFAULT_INDEX=$PIP_INDEX_URL
# The CPU lock pins torch's +cpu build. It comes from PyTorch's own CPU index unless a local folder holds it.
torch_from=()
if [ "$DEVICE" = cpu ] && ! compgen -G "${links:-/nonexistent}/torch-*+cpu-*.whl" >/dev/null; then
  torch_from=(--torch-backend cpu)
fi

for env in "${todo[@]}"; do
  say "building .venvs/$env from $(lock_of "$env")"
  rm -f ".venvs/$env/.stamp"
  [ -x ".venvs/$env/bin/python" ] || "$uv" venv --quiet --clear --python "$python" ".venvs/$env"
  touch ".venvs/$env/.unfinished" # no sandbox offers it so
  options=()
  case $env in trainer | rollout) options=("${torch_from[@]}") ;; esac
  # what runs in the sandbox can't write there, and would compile it again each time
  case $env in sandbox-*) options=(--compile-bytecode) ;; esac
  "$uv" pip sync --python ".venvs/$env" "${options[@]}" "$(lock_of "$env")" \
    || fail "could not install the packages of $env (above): no network, no space or a locked-down index. Run the same command again to go on."
  if [ "$env" = sandbox-bigcodebench ]; then # NLTK's data are in no package
    data=$(echo ".venvs/$env"/lib/python3*/site-packages)/nltk_data
    timeout 120 ".venvs/$env/bin/python" -m nltk.downloader -q -d "$data" \
      stopwords words averaged_perceptron_tagger vader_lexicon punkt >/dev/null 2>&1 || true
    [ -d "$data/tokenizers/punkt" ] \
      || say "NLTK's data could not be fetched: the 17 tasks of BigCodeBench that need them fail here (docs/benchmarks.md)."
  fi
  editable=()
  for package in $(packages_of "$env"); do editable+=(-e "$package"); done
  [ ${#editable[@]} -eq 0 ] || "$uv" pip install --quiet --python ".venvs/$env" --no-deps "${editable[@]}"
  rm ".venvs/$env/.unfinished"
  stamp_of "$env" >".venvs/$env/.stamp"
done
say "ready: ${todo[*]}"
