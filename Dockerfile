# Three images from one file, for amd64 and arm64: docker buildx build --platform linux/amd64,linux/arm64
# --target device|agent|coordinator . See docs/images.md.
ARG PYTHON=python:3.11.14-slim-bookworm

# The wheel is pure Python: it is made once, on the machine that builds.
FROM --platform=$BUILDPLATFORM ${PYTHON} AS source
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY protofleet protofleet
COPY edge_agent edge_agent
COPY coordinator coordinator
COPY export export
COPY simulators simulators
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM ${PYTHON} AS base
ENV PYTHONUNBUFFERED=1 ORT_DISABLE_TELEMETRY=1
RUN useradd --create-home --uid 1000 fleet && mkdir /data && chown fleet /data
COPY --from=source /wheels /wheels
COPY constraints.txt /wheels/
WORKDIR /data

# Takes part through an extractor that stays, classifies, watches cameras, serves its owner's page; no torch.
FROM base AS device
RUN pip install --no-cache-dir --find-links /wheels --constraint /wheels/constraints.txt "protofleet[camera,trust,pages]"
USER 1000
ENTRYPOINT ["edge-agent"]
CMD ["run", "--config", "/data/agent.toml"]

# Trains as well. PIP_EXTRA_INDEX_URL may name an index of torch for processors alone, which is gigabytes smaller.
FROM base AS agent
ARG PIP_EXTRA_INDEX_URL=
RUN pip install --no-cache-dir --find-links /wheels --constraint /wheels/constraints.txt "protofleet[train,camera,trust,pages]"
USER 1000
ENTRYPOINT ["edge-agent"]
CMD ["run", "--config", "/data/agent.toml"]

# Keeps the ledger, or opens rounds and fuses; no torch, but for methods that ask for it.
FROM base AS coordinator
RUN pip install --no-cache-dir --find-links /wheels --constraint /wheels/constraints.txt "protofleet[coordinator]"
USER 1000
ENTRYPOINT ["coordinator"]
CMD ["serve", "--config", "/data/fleet.toml"]
