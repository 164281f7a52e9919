#!/bin/sh
# Prints the two Secrets of the platform, with new random values: `deploy/kubernetes/secrets.sh | kubectl create -n ratchet -f -`.
# Passwords of stores that are there already come from REDIS_PASSWORD, POSTGRES_PASSWORD, S3_ACCESS_KEY and S3_SECRET_KEY.
# `create` refuses to replace them: databases and running pods know the old ones.
set -eu
random() { head -c 32 /dev/urandom | od -An -v -tx1 | tr -d ' \n'; }

# As YAML has a text in which nothing is special but the quote, which stands twice.
quoted() { printf "'"; printf %s "$1" | sed "s/'/''/g"; printf "'"; }

token=$(random)
cat <<END
apiVersion: v1
kind: Secret
metadata: { name: ratchet, labels: { app.kubernetes.io/part-of: ratchet } }
stringData:
  service.token: "$token"
  admin.key: "rk_$(random)"
  redis.password: $(quoted "${REDIS_PASSWORD:-$(random)}")
  postgres.password: $(quoted "${POSTGRES_PASSWORD:-$(random)}")
  s3.access-key: $(quoted "${S3_ACCESS_KEY:-ratchet}")
  s3.secret-key: $(quoted "${S3_SECRET_KEY:-$(random)}")
---
# Of the services' token the sandbox gets a digest, so that no program in it can show the token itself.
apiVersion: v1
kind: Secret
metadata: { name: ratchet-sandbox, labels: { app.kubernetes.io/part-of: ratchet } }
stringData:
  service.digest: "$(printf %s "$token" | sha256sum | cut -d' ' -f1)"
  redis.password: "$(random)"
END
