# AIR on CPU tensors and on air-sim, the software Ascend. Nothing measured in it is NPU performance.
# This file has not been built yet: where it was written no container could be started.
#
#     docker build -t air . && docker run --rm air air demo
#     docker run --rm air air demo --sim
#
# --build-arg TORCH_INDEX=<an index with CPU builds of torch> spares gigabytes of CUDA.
FROM python:3.11-slim-bookworm
ARG TORCH_INDEX=""
ENV PIP_EXTRA_INDEX_URL=${TORCH_INDEX} PIP_NO_CACHE_DIR=1

RUN apt-get update \
    && apt-get install -y --no-install-recommends g++ binutils \
    && rm -rf /var/lib/apt/lists/*

# torch, the torch_npu that belongs to it, and what its wheel does not declare
RUN pip install "torch==2.13.0" \
    && pip install --no-deps "torch_npu==2.13.0" \
    && pip install numpy pyyaml decorator psutil scipy attrs "protobuf>=3.20.3,<8"

# torch loads torch_npu when it is imported, which needs CANN: programs ask for air-sim instead (air run --sim)
ENV TORCH_DEVICE_BACKEND_AUTOLOAD=0

WORKDIR /srv/air
COPY packages packages
RUN pip install packages/air-config packages/air-graph packages/air-sim packages/air-fxpasses \
    packages/air-streams packages/air-aclgraph packages/air-geir packages/air-backend

RUN useradd --create-home air && chown air /srv/air
USER air
RUN air-sim build
CMD ["air", "doctor"]
