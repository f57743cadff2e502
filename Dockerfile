# Image for NVIDIA GPUs; needs the NVIDIA container toolkit on the host.
#   docker build -t recon_tf .
#   docker run --rm --gpus all -v "$PWD/runs:/logdir" recon_tf
FROM debian:bookworm-slim

# glvnd hands EGL calls to the driver that the toolkit mounts, or to Mesa where there is no GPU.
# hadolint ignore=DL3008
RUN apt-get update \
  && apt-get install -y --no-install-recommends \
    ca-certificates python3.11 python3.11-venv \
    libglvnd0 libegl1 libgl1 libopengl0 libxext6 libegl-mesa0 libgl1-mesa-dri \
  && rm -rf /var/lib/apt/lists/*

# Without this file glvnd does not find NVIDIA's EGL; the number puts it before Mesa's.
RUN mkdir -p /usr/share/glvnd/egl_vendor.d \
  && printf '%s\n' '{"file_format_version": "1.0.0", "ICD": {"library_path": "libEGL_nvidia.so.0"}}' \
    > /usr/share/glvnd/egl_vendor.d/10_nvidia.json

ENV NVIDIA_VISIBLE_DEVICES=all \
  NVIDIA_DRIVER_CAPABILITIES=compute,graphics,utility \
  MUJOCO_GL=egl \
  PYTHONUNBUFFERED=1 \
  PATH=/opt/venv/bin:$PATH

# Packages first, from pyproject.toml alone: a change of code does not fetch them again.
WORKDIR /app
COPY pyproject.toml ./
RUN python3.11 -m venv /opt/venv \
  && python -c "import tomllib; p = tomllib.load(open('pyproject.toml', 'rb'))['project']; \
print(*p['dependencies'], *p['optional-dependencies']['gpu'], sep='\n')" > /tmp/requirements.txt \
  && pip install --no-cache-dir -r /tmp/requirements.txt \
  && rm /tmp/requirements.txt

COPY . .
RUN pip install --no-cache-dir -e '.[gpu]'

VOLUME /logdir
CMD ["python", "scripts/train.py", "--configs", "dmc", "metaworld", "--logdir", "/logdir"]
