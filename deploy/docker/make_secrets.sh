#!/bin/sh
# Makes what the services of docker-compose.yml show one another, once. Each file is for its owner alone: 10001 is the
# services' uid, 999 PostgreSQL's.
set -eu
umask 077

make() { [ -s "$1" ] || head -c 32 /dev/urandom | od -An -v -tx1 | tr -d ' \n' >"$1"; }

mkdir -p /secrets/postgres
[ -z "${POSTGRES_PASSWORD:-}" ] || printf %s "$POSTGRES_PASSWORD" >/secrets/postgres.password
for name in service.token redis.password postgres.password; do make "/secrets/$name"; done
make /sandbox-secrets/redis.password
cp /secrets/postgres.password /secrets/postgres/password
for one in $(cat /secrets/service.token); do printf %s "$one" | sha256sum | cut -d' ' -f1; done >/sandbox-secrets/service.digest
chown -R 10001 /secrets /sandbox-secrets
chown -R 999 /secrets/postgres
chmod 711 /secrets /sandbox-secrets
