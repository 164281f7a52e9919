# Stands in for the postgres image where no image registry is reachable: the distribution's PostgreSQL with as much of
# that image's start as docker-compose.yml asks for.
ARG BASE_IMAGE
FROM ${BASE_IMAGE}
# 999 is its uid in that image, too.
RUN useradd --system --uid 999 --home-dir /var/lib/postgresql postgres \
    && apt-get update && apt-get install -y --no-install-recommends postgresql && rm -rf /var/lib/apt/lists/* \
    && install -d -o postgres -m 700 /var/lib/postgresql/data
COPY postgres-entrypoint.sh /usr/local/bin/
USER postgres
ENV PGDATA=/var/lib/postgresql/data
ENTRYPOINT ["/bin/bash", "/usr/local/bin/postgres-entrypoint.sh"]
