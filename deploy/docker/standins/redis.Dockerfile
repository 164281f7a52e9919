# Stands in for the valkey image where no image registry is reachable: the distribution's Redis under Valkey's names.
ARG BASE_IMAGE
FROM ${BASE_IMAGE}
RUN apt-get update && apt-get install -y --no-install-recommends redis-server && rm -rf /var/lib/apt/lists/* \
    && ln -s /usr/bin/redis-server /usr/local/bin/valkey-server && ln -s /usr/bin/redis-cli /usr/local/bin/valkey-cli \
    && install -d -o redis /data
WORKDIR /data
USER redis
ENTRYPOINT ["/usr/bin/env"]
CMD ["valkey-server", "--bind", "0.0.0.0", "--protected-mode", "no"]
