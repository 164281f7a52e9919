#!/usr/bin/env bash
# Writes libs/protos/src from proto/. With --check: fails when the committed stubs differ from what proto/ gives.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=${RATCHET_LIGHT_ENV:-.venvs/light}/bin
out=libs/protos/src
if [ "${1:-}" = "--check" ]; then
  out=$(mktemp -d)
  trap 'rm -rf "$out"' EXIT
else
  rm -rf "$out/ratchet"
fi
# grpc_python is built into grpc_tools; the mypy plugins are found on PATH.
PATH="$bin:$PATH" "$bin/python" -m grpc_tools.protoc -I proto \
  --python_out="$out" --grpc_python_out="$out" --mypy_out=quiet:"$out" --mypy_grpc_out=quiet:"$out" \
  $(cd proto && find ratchet -name '*.proto' | sort)
if [ "${1:-}" = "--check" ]; then
  diff -r --exclude=__pycache__ "$out/ratchet" libs/protos/src/ratchet \
    || { echo "The stubs in libs/protos are not those of proto/: run 'make protos' and commit." >&2; exit 1; }
fi
