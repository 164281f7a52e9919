#!/usr/bin/env bash
# Builds the images and plays the pods of the rendered manifests with podman (tests/kube), which needs root.
#
# Images are built by the docker engine that answers, or by a private one, as compose_test.sh does. Podman, from the
# distribution where it is missing, has its images, networks and volumes in a temporary folder. Both end with the test.
set -euo pipefail
cd "$(dirname "$0")/../.."

say() { printf 'kube-test: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }
. deploy/docker/private_engine.sh

[ "$(id -u)" = 0 ] || fail "only root can play pods with addresses of their own."
work=$(mktemp -d -t ratchet-kube.XXXXXX)

clean_up() {
  local code=$?
  trap - EXIT
  trap '' INT TERM
  engine_stop "$work"
  ! command -v podman >/dev/null || podman pod rm --all --force --time 0 >/dev/null 2>&1 || true
  umount "$work/pods/overlay" 2>/dev/null || true
  rm -rf "$work" || true
  exit "$code"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

printf '[storage]\ndriver = "overlay"\ngraphroot = "%s"\nrunroot = "%s"\n' "$work/pods" "$work/run" >"$work/storage.conf"
# Limits below this machine's own: where root may not raise them, podman's do not hold. crun refuses hybrid cgroups.
cat >"$work/containers.conf" <<END
[containers]
default_ulimits = ["nofile=$(ulimit -Hn):$(ulimit -Hn)", "nproc=16384:16384"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
tmp_dir = "$work/tmp"
volume_path = "$work/volumes"
[network]
network_backend = "netavark"
network_config_dir = "$work/networks"
END
export CONTAINERS_STORAGE_CONF=$work/storage.conf CONTAINERS_CONF=$work/containers.conf

if ! command -v podman >/dev/null || ! command -v catatonit >/dev/null; then
  say "installing podman"
  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    podman runc netavark aardvark-dns catatonit iptables; } >"$work/apt.log" 2>&1 || { tail -n 5 "$work/apt.log" >&2; fail "apt-get failed."; }
fi

if command -v docker >/dev/null && docker info >/dev/null 2>&1; then
  say "building with the docker engine that answers"
else
  say "no docker engine answers: starting one for this test"
  engine_start "$work"
  engine_images "$work" redis postgres s3
fi
REDIS_IMAGE=${REDIS_IMAGE:-valkey/valkey:8-bookworm} POSTGRES_IMAGE=${POSTGRES_IMAGE:-postgres:17-bookworm} S3_IMAGE=${S3_IMAGE:-chrislusf/seaweedfs:4.48}
[ -n "${DOCKERD:-}" ] || for image in "$REDIS_IMAGE" "$POSTGRES_IMAGE" "$S3_IMAGE"; do docker image inspect "$image" >/dev/null 2>&1 || docker pull --quiet "$image"; done
export REDIS_IMAGE POSTGRES_IMAGE S3_IMAGE
engine_services "$work" ratchet-test
for image in "${SERVICES[@]/#/ratchet-test-}" "$REDIS_IMAGE" "$POSTGRES_IMAGE" "$S3_IMAGE"; do
  docker save "$image" | podman load --quiet >/dev/null
done
if [ -n "${DOCKERD:-}" ]; then
  # As podman names what it loads.
  export REDIS_IMAGE=localhost/$REDIS_IMAGE:latest POSTGRES_IMAGE=localhost/$POSTGRES_IMAGE:latest S3_IMAGE=localhost/$S3_IMAGE:latest
  engine_stop "$work"
  unset DOCKERD
fi

RATCHET_KUBE_IMAGES=localhost/ratchet-test- .venvs/light/bin/pytest tests/kube -n 0 -x
say "passed"
