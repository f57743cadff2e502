# Two images from one file; the last target, without a GPU, is the default.
#   docker build -t recon_tf --build-arg COMMIT="$(git rev-parse HEAD)" .
#   docker build -t recon_tf:gpu --target gpu --build-arg COMMIT="$(git rev-parse HEAD)" .
#   docker run --rm -v "$PWD/runs:/data/runs" recon_tf train --configs maze cpu
#   docker run --rm --gpus all -v recon_runs:/data/runs -v recon_cache:/data/cache recon_tf:gpu train --configs dmc
# A folder of the host that is mounted has to be writable for user 1000, or add --user "$(id -u)".
FROM debian:bookworm-slim AS base

# glvnd hands EGL calls to the driver that the toolkit mounts, or to Mesa where there is no GPU.
# hadolint ignore=DL3008
RUN apt-get update \
  && apt-get install -y --no-install-recommends \
    ca-certificates python3.11 python3.11-venv \
    libglvnd0 libegl1 libgl1 libopengl0 libxext6 libegl-mesa0 libgl1-mesa-dri \
  && rm -rf /var/lib/apt/lists/*

# Runs, demonstrations and compiled programs outlive the container; anybody may write, so that
# --user works.
RUN useradd --create-home --uid 1000 recon \
  && mkdir -p /data/runs /data/demos /data/cache \
  && chown -R recon /data && chmod -R 0777 /data

ENV MUJOCO_GL=egl \
  PYTHONUNBUFFERED=1 \
  RECON_XLA_CACHE=/data/cache \
  PATH=/opt/venv/bin:$PATH

# What both images have in common; later stages inherit it.
LABEL org.opencontainers.image.title=recon_tf \
  org.opencontainers.image.version=0.2.0 \
  org.opencontainers.image.licenses=MIT
VOLUME ["/data/runs", "/data/demos", "/data/cache"]
ENTRYPOINT ["recon-tf"]
# Minutes on a laptop: RECON from vectors in the U-maze.
CMD ["train", "--configs", "maze", "cpu", "state", "--task", "maze_umaze"]

# Packages first, from pyproject.toml alone: a change of code does not fetch them again.
FROM base AS packages
WORKDIR /build
COPY pyproject.toml ./
RUN python3.11 -m venv /opt/venv \
  && python -c "import tomllib; p = tomllib.load(open('pyproject.toml', 'rb'))['project']; \
print(*p['dependencies'], sep='\n')" > /tmp/requirements.txt \
  && pip install --no-cache-dir -r /tmp/requirements.txt \
  && rm /tmp/requirements.txt

FROM packages AS packages-gpu
RUN python -c "import tomllib; p = tomllib.load(open('pyproject.toml', 'rb'))['project']; \
print(*p['optional-dependencies']['gpu'], sep='\n')" > /tmp/requirements.txt \
  && pip install --no-cache-dir -r /tmp/requirements.txt \
  && rm /tmp/requirements.txt

FROM packages AS wheel
COPY README.md LICENSE configs.yaml ./
COPY recon_tf recon_tf
COPY policies policies
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM packages-gpu AS gpu
# Without this file glvnd does not find NVIDIA's EGL; the number puts it before Mesa's.
RUN mkdir -p /usr/share/glvnd/egl_vendor.d \
  && printf '%s\n' '{"file_format_version": "1.0.0", "ICD": {"library_path": "libEGL_nvidia.so.0"}}' \
    > /usr/share/glvnd/egl_vendor.d/10_nvidia.json
ENV NVIDIA_VISIBLE_DEVICES=all \
  NVIDIA_DRIVER_CAPABILITIES=compute,graphics,utility
COPY --from=wheel /wheels /wheels
RUN pip install --no-cache-dir --no-deps /wheels/*.whl
ARG COMMIT=''
ENV RECON_COMMIT=$COMMIT
LABEL org.opencontainers.image.revision=$COMMIT
USER recon
WORKDIR /data

FROM packages AS cpu
COPY --from=wheel /wheels /wheels
RUN pip install --no-cache-dir --no-deps /wheels/*.whl
ARG COMMIT=''
ENV RECON_COMMIT=$COMMIT
LABEL org.opencontainers.image.revision=$COMMIT
USER recon
WORKDIR /data
