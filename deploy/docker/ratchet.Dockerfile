# The command, for machines that have no Python 3.11: `docker build -f deploy/docker/ratchet.Dockerfile -t ratchet .`, then
# `docker run --rm --network host -e RATCHET_URL -e RATCHET_API_KEY -v "$PWD:/work" ratchet models list`.
ARG BASE_IMAGE=python:3.11-slim-bookworm
FROM ${BASE_IMAGE}
RUN python3 -m venv /opt/venv && useradd --uid 10001 --create-home ratchet && install -d -o ratchet /work
ENV PATH=/opt/venv/bin:$PATH PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
COPY requirements-light.lock /src/
COPY scripts/parts.py /src/scripts/
COPY libs /src/libs
RUN cd /src && pip install uv==0.13.8 \
    && VIRTUAL_ENV=/opt/venv uv pip install --no-cache --compile-bytecode --constraint requirements-light.lock \
       $(python3 scripts/parts.py libs/cli | sed 's|[^ ]*|./&|g') "ratchet-cli[report] @ ./libs/cli" \
    && pip uninstall --yes uv
ARG COMMIT=""
ENV RATCHET_COMMIT=${COMMIT}
LABEL org.opencontainers.image.revision=${COMMIT}
USER 10001
WORKDIR /work
ENTRYPOINT ["ratchet"]
