#!/usr/bin/env bash
# Creates .venv, installs the pinned packages and makes sure that rendering works.
# What is done already is not done again.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

gl_packages=(libegl1 libegl-mesa0 libgl1-mesa-dri libopengl0)
log=.venv/setup.log

say() { echo "setup: $*"; }
fail() { echo "error: $*" >&2; exit 1; }

can_apt() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; }

apt_install() {
  local quiet=(apt-get install -y -qq --no-install-recommends)
  say "installing $* with apt-get"
  export DEBIAN_FRONTEND=noninteractive
  "${quiet[@]}" "$@" >/dev/null 2>&1 || { apt-get update -qq && "${quiet[@]}" "$@"; } >/dev/null 2>&1 ||
    fail "apt-get could not install $*; run 'apt-get install $*' to see why."
}

missing_of() {
  local name
  for name in "$@"; do
    dpkg-query -W -f '${Status}' "$name" 2>/dev/null | grep -q 'install ok installed' || echo "$name"
  done
}

find_python() {
  local name
  for name in ${PYTHON:-python3.11 python3 python}; do
    if "$name" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null; then
      command -v "$name"
      return
    fi
  done
  if [ -n "${PYTHON:-}" ]; then
    fail "PYTHON=$PYTHON is not a Python 3.11; name one, as in 'make train PYTHON=/usr/bin/python3.11'."
  fi
  fail "Python 3.11 was not found; install it (sudo apt-get install python3.11 python3.11-venv) or name it, as in 'make train PYTHON=/opt/python3.11/bin/python3.11'."
}

make_venv() {
  local python=$1
  if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    can_apt || fail "Python's venv module is missing; run 'sudo apt-get install python3.11-venv' and try again."
    apt_install python3.11-venv
  fi
  say "creating .venv with $("$python" --version)"
  "$python" -m venv --clear .venv || fail "$python could not create .venv; is this folder writable?"
}

renders() { .venv/bin/python scripts/check_gl.py >"$log" 2>&1; }

# Two set-ups at once would spoil each other's .venv.
if command -v flock >/dev/null; then exec 9<pyproject.toml; flock 9; fi

# The folder is part of the key: a .venv that was moved or copied does not work.
key=$({ cat pyproject.toml; pwd; } | sha256sum | cut -d ' ' -f 1)
if [ "$(cat .venv/.packages 2>/dev/null)" != "$key" ]; then
  if ! { .venv/bin/python -m pip --version 2>/dev/null || true; } | grep -qF "$PWD/.venv/"; then
    python=$(find_python)
    make_venv "$python"
  fi
  say 'installing the pinned packages (a few minutes the first time)'
  .venv/bin/python -m pip install -q --disable-pip-version-check -e '.[dev,wandb]' >"$log" 2>&1 ||
    fail "pip failed: $(grep -m 1 -i '^error' "$log" || tail -n 1 "$log") (all of it in $log)"
  echo "$key" >.venv/.packages
fi

if [ ! -e .venv/.gl ]; then
  export MUJOCO_GL=${MUJOCO_GL:-egl}
  if ! renders; then
    missing=($(missing_of "${gl_packages[@]}"))
    broken="Rendering with MUJOCO_GL=$MUJOCO_GL does not work"
    [ ${#missing[@]} -gt 0 ] || fail "$broken: $(tail -n 1 "$log") (all of it in $log)"
    can_apt || fail "$broken; run 'sudo apt-get install ${missing[*]}' and try again (details in $log)."
    apt_install "${missing[@]}"
    renders || fail "$broken: $(tail -n 1 "$log") (all of it in $log)"
  fi
  touch .venv/.gl
  say 'ready'
fi

# What only tests need. Those of the report look at it in a browser, and are skipped without one;
# those of sweeps run on Ray.
if [ "${1:-}" = tests ]; then
  if ! .venv/bin/python -c 'import ray' 2>/dev/null; then
    say 'installing Ray for the tests of sweeps'
    .venv/bin/python -m pip install -q --disable-pip-version-check -e '.[cluster]' >"$log" 2>&1 ||
      fail "pip failed: $(grep -m 1 -i '^error' "$log" || tail -n 1 "$log") (all of it in $log)"
  fi
  if ! command -v chromium >/dev/null && can_apt; then
    (apt_install chromium) || say 'no chromium: the tests that open a page will be skipped'
  fi
fi
