# A Docker engine and images to build from, for a machine that has neither and reaches no image registry. Sourced by
# compose_test.sh and kube_test.sh; needs root on a Debian. engine_start and engine_images FOLDER NAME... export DOCKER_HOST,
# BASE_IMAGE, HEAVY_BASE_IMAGE, BUILD_NETWORK and NAME_IMAGE of each stand-in; engine_stop ends what it started.
# engine_services builds the images of the six services in any engine.
#
# The caller's pip settings go into the local base image only, never into a Dockerfile: PIP_CERT (the bundle of a
# proxy's certificates), PIP_INDEX_URL, and PIP_FIND_LINKS (a folder of wheels, torch's among them).

SUITE=bookworm
SERVICES=(sandbox registry eval gateway rollout trainer)

mirror() { # the archive that this machine's own apt is set to
  [ -n "${DEBIAN_MIRROR:-}" ] && { echo "$DEBIAN_MIRROR"; return; }
  apt-get indextargets --format '$(REPO_URI)' "Codename: $SUITE" 2>/dev/null | sed -n 1p
}

engine_install() {
  [ "$(id -u)" = 0 ] || fail "no docker engine answers, and only root can start one of its own."
  command -v apt-get >/dev/null || fail "no docker engine answers, and this machine has no apt-get to install one."
  command -v dockerd >/dev/null && command -v debootstrap >/dev/null && return
  say "installing docker.io and debootstrap"
  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    docker.io debootstrap iptables; } >"$1/apt.log" 2>&1 || { tail -n 5 "$1/apt.log" >&2; fail "apt-get failed."; }
}

engine_start() { # folder
  engine_install "$1"
  export DOCKER_HOST=unix://$1/docker.sock
  # This engine has the classic builder only.
  export DOCKER_BUILDKIT=0
  # Builds use the network of this machine.
  export BUILD_NETWORK=host
  # In a session of its own: after Ctrl-C it is still needed for cleaning up. Without the default bridge docker0.
  setsid dockerd --bridge none --data-root "$1/data" --exec-root "$1/exec" --pidfile "$1/dockerd.pid" --host "$DOCKER_HOST" \
    >"$1/dockerd.log" 2>&1 &
  DOCKERD=$!
  for _ in $(seq 60); do
    docker info >/dev/null 2>&1 && return
    kill -0 "$DOCKERD" 2>/dev/null || break
    sleep 1
  done
  tail -n 5 "$1/dockerd.log" >&2
  fail "dockerd does not start here."
}

engine_build() { # folder, then what docker build takes
  local folder=$1
  shift
  docker build "$@" >"$folder/build.log" 2>&1 || { tail -n 20 "$folder/build.log" >&2; fail "docker build $* failed."; }
}

engine_images() { # folder, names of stand-ins
  say "making the base image by debootstrap"
  debootstrap --variant=minbase --include=python3,python3-pip,python3-venv,ca-certificates \
    "$SUITE" "$1/rootfs" "$(mirror)" >"$1/debootstrap.log" 2>&1 || { tail -n 5 "$1/debootstrap.log" >&2; fail "debootstrap failed."; }
  rm -rf "$1"/rootfs/var/cache/apt/archives/*.deb "$1"/rootfs/var/lib/apt/lists/*
  local bundle=/etc/ssl/certs/ca-certificates.crt changes=()
  if [ -f "${PIP_CERT:-}" ]; then
    cp -L "$PIP_CERT" "$1/rootfs$bundle"
    changes+=(--change "ENV PIP_CERT=$bundle SSL_CERT_FILE=$bundle")
  fi
  [ -z "${PIP_INDEX_URL:-}" ] || changes+=(--change "ENV PIP_INDEX_URL=$PIP_INDEX_URL UV_DEFAULT_INDEX=$PIP_INDEX_URL")
  tar -C "$1/rootfs" -c . | docker import "${changes[@]}" - ratchet-base >/dev/null
  rm -rf "$1/rootfs"

  export BASE_IMAGE=ratchet-base HEAVY_BASE_IMAGE=ratchet-base
  if compgen -G "${PIP_FIND_LINKS:-/nonexistent}/torch-*+cpu-*.whl" >/dev/null; then
    mkdir "$1/wheels"
    cp "$PIP_FIND_LINKS"/torch-*+cpu-*.whl "$1/wheels/"
    printf 'FROM ratchet-base\nCOPY *.whl /opt/wheels/\nENV UV_FIND_LINKS=/opt/wheels\n' >"$1/wheels/Dockerfile"
    engine_build "$1" --tag ratchet-base-heavy "$1/wheels"
    export HEAVY_BASE_IMAGE=ratchet-base-heavy TORCH_BACKEND=
  fi

  say "making stand-ins for the images of stores"
  local folder=$1 name
  shift
  for name in "$@"; do
    engine_build "$folder" --network=host --build-arg BASE_IMAGE=ratchet-base --tag "ratchet-standin-$name" \
      --file "deploy/docker/standins/$name.Dockerfile" deploy/docker/standins
    export "${name^^}_IMAGE=ratchet-standin-$name"
  done
}

engine_services() { # folder, what their names begin with, more images
  local folder=$1 prefix=$2 service base file arguments started size
  shift 2
  for service in "${SERVICES[@]}" "$@"; do
    case $service in rollout | trainer) base=${HEAVY_BASE_IMAGE:-${BASE_IMAGE:-}} ;; *) base=${BASE_IMAGE:-} ;; esac
    case $service in ratchet) file=ratchet.Dockerfile ;; *) file=Dockerfile ;; esac
    arguments=(--build-arg "SERVICE=$service" --build-arg "COMMIT=${COMMIT:-}" ${BUILD_NETWORK:+--network="$BUILD_NETWORK"})
    [ -z "$base" ] || arguments+=(--build-arg "BASE_IMAGE=$base")
    case $service in rollout | trainer) arguments+=(--build-arg "TORCH_BACKEND=${TORCH_BACKEND-cpu}") ;; esac
    started=$SECONDS
    nice -n 10 docker build "${arguments[@]}" --file "deploy/docker/$file" --tag "$prefix-$service" . \
      >"$folder/build-$service.log" 2>&1 || { tail -n 30 "$folder/build-$service.log" >&2; fail "the image of $service does not build."; }
    size=$(docker image inspect --format '{{.Size}}' "$prefix-$service")
    say "built $service: $((size / 1000000)) MB in $((SECONDS - started)) s"
  done
}

engine_stop() { # folder
  [ -n "${DOCKERD:-}" ] || return 0
  kill "$DOCKERD" 2>/dev/null || true
  wait "$DOCKERD" 2>/dev/null || true
  # The engine leaves its own network namespace mounted, and with it a folder that cannot be removed.
  umount "$1/exec/netns/default" 2>/dev/null || true
}
