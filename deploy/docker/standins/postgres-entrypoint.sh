#!/usr/bin/env bash
# The first start makes the cluster, the owner POSTGRES_USER with the password of POSTGRES_PASSWORD_FILE, and runs the *.sql files.
set -euo pipefail
POSTGRES_PASSWORD=$(cat "$POSTGRES_PASSWORD_FILE")
PATH=$(echo /usr/lib/postgresql/*/bin):$PATH

if [ ! -s "$PGDATA/PG_VERSION" ]; then
  initdb --username="$POSTGRES_USER" --pwfile=<(printf '%s' "$POSTGRES_PASSWORD") --encoding=UTF8 --locale=C.UTF-8 --auth=scram-sha-256 --auth-local=trust >/dev/null
  echo "host all all all scram-sha-256" >>"$PGDATA/pg_hba.conf"
  # On the socket only: the health check fails until the databases exist.
  pg_ctl start --wait --silent --options="-c listen_addresses= -c unix_socket_directories=/tmp"
  createdb --host=/tmp --username="$POSTGRES_USER" "$POSTGRES_USER"
  for file in /docker-entrypoint-initdb.d/*.sql; do
    psql --host=/tmp --username="$POSTGRES_USER" --set=ON_ERROR_STOP=1 --quiet --file="$file"
  done
  pg_ctl stop --wait --silent
fi
exec postgres -c listen_addresses='*'
