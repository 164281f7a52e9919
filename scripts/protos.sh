#!/usr/bin/env bash
# The tools for proto/: scripts/protos.sh {generate | check | lint | breaking}
#
# generate   write the stubs in libs/protos/src
# check      fail when the committed stubs are not those of proto/
# lint       buf's style rules
# breaking   fail when proto/ breaks a client of the base: the merge base with main, or on main itself the commit before
#
# Google's own protos (google/api, google/rpc) come from the package googleapis-common-protos: nothing is downloaded.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$(cd "${RATCHET_LIGHT_ENV:-.venvs/light}/bin" && pwd)
# Bases whose protos lack this name are older than the stable API: any change was allowed.
stable_since=shares_gpu
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

google_protos() { # the folder that holds google/api/*.proto
  "$bin/python" -c 'import pathlib, google.api.http_pb2 as m; print(pathlib.Path(m.__file__).parents[2])'
}

generate() { # folder to write into
  # grpc_python is built into grpc_tools; the mypy plugins are found on PATH.
  PATH="$bin:$PATH" "$bin/python" -m grpc_tools.protoc -I proto -I "$(google_protos)" \
    --python_out="$1" --grpc_python_out="$1" --mypy_out=quiet:"$1" --mypy_grpc_out=quiet:"$1" \
    $(cd proto && find ratchet -name '*.proto' | sort)
}

check() {
  mkdir "$scratch/stubs"
  generate "$scratch/stubs"
  diff -r --exclude=__pycache__ "$scratch/stubs/ratchet" libs/protos/src/ratchet \
    || { echo "The stubs in libs/protos are not those of proto/: run 'make protos' and commit." >&2; exit 1; }
}

workspace() { # folder that holds ratchet/ -> a new folder that buf can read: our module and Google's beside it
  local new
  new=$(mktemp -d "$scratch/XXXXXX")
  mkdir -p "$new/proto" "$new/googleapis"
  cp -r "$1/ratchet" "$new/proto/"
  (cd "$(google_protos)" && find google/api google/rpc -name '*.proto' -exec cp --parents {} "$new/googleapis/" \;)
  sed 's|^\( *- path:\) \.$|\1 proto\n\1 googleapis|' proto/buf.yaml >"$new/buf.yaml"
  echo "$new"
}

lint() {
  local new
  new=$(workspace proto)
  (cd "$new" && "$bin/buf" lint proto)
}

base_commit() { # nothing when there is no history to compare with
  local main head merge
  head=$(git rev-parse --verify --quiet HEAD 2>/dev/null) || return 0
  main=$(git rev-parse --verify --quiet origin/main || git rev-parse --verify --quiet main || true)
  merge=$([ -z "$main" ] || git merge-base "$main" "$head" || true)
  if [ -n "$merge" ] && [ "$merge" != "$head" ]; then echo "$merge"; else git rev-parse --verify --quiet "$head^" || true; fi
}

breaking() {
  local base new old
  base=$(base_commit)
  [ -n "$base" ] || { echo "buf breaking: skipped, there is no earlier commit here to compare with."; return; }
  git grep --quiet --word-regexp "$stable_since" "$base" -- proto/ratchet \
    || { echo "buf breaking: skipped, ${base:0:12} is older than the stable API (no $stable_since)."; return; }
  mkdir "$scratch/base"
  git archive "$base" proto/ratchet | tar -x -C "$scratch/base"
  new=$(workspace proto)
  old=$(workspace "$scratch/base/proto")
  (cd "$new" && "$bin/buf" breaking --against "$old") \
    || { echo "proto/ breaks clients of ${base:0:12}: add new fields and messages, leave the old ones." >&2; exit 1; }
}

case ${1:-} in
  generate) rm -rf libs/protos/src/ratchet && generate libs/protos/src ;;
  check | lint | breaking) "$1" ;;
  *) echo "usage: scripts/protos.sh {generate | check | lint | breaking}" >&2; exit 2 ;;
esac
