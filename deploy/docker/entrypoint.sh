#!/bin/sh
# Runs the service of this image, on the ports that the Dockerfile exposes. A variable that is set already is kept.
set -eu
prefix=RATCHET_$(echo "$SERVICE" | tr '[:lower:]' '[:upper:]')
case "$SERVICE" in gateway | sandbox) http=HTTP_PORT=8080 ;; *) http= ;; esac
for default in HOST=0.0.0.0 PORT=50051 METRICS_PORT=9090 $http; do
  printenv "${prefix}_${default%%=*}" >/dev/null || export "${prefix}_$default"
done
exec python -m "${SERVICE}_service.main"
