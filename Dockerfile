# Three images from one file: docker build --target device|agent|coordinator .
FROM python:3.11-slim AS source
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY protofleet protofleet
COPY edge_agent edge_agent
COPY coordinator coordinator
COPY export export
COPY simulators simulators
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.11-slim AS base
ENV PYTHONUNBUFFERED=1 ORT_DISABLE_TELEMETRY=1
RUN useradd --create-home --uid 1000 fleet && mkdir /data && chown fleet /data
COPY --from=source /wheels /wheels
COPY constraints.txt /wheels/
WORKDIR /data

# Classifies and follows updates; no torch.
FROM base AS device
RUN pip install --no-cache-dir --find-links /wheels --constraint /wheels/constraints.txt "protofleet" "pillow"
USER 1000
ENTRYPOINT ["edge-agent"]
CMD ["--help"]

# Trains as well.
FROM base AS agent
RUN pip install --no-cache-dir --find-links /wheels --constraint /wheels/constraints.txt "protofleet[train]"
USER 1000
ENTRYPOINT ["edge-agent"]
CMD ["run", "--config", "/data/agent.toml"]

# Opens rounds and fuses; no torch, but for methods that ask for it.
FROM base AS coordinator
RUN pip install --no-cache-dir --find-links /wheels --constraint /wheels/constraints.txt "protofleet[coordinator]"
USER 1000
ENTRYPOINT ["coordinator"]
CMD ["serve", "--config", "/data/fleet.toml"]
