#!/usr/bin/env bash
# Makes a fresh Debian machine ready, in two parts:
#   setup.sh run    what running needs: .venv with the packages of requirements-run.lock, Java 17 or 21, the jars of a new project
#   setup.sh        that, and what developing needs: the packages of requirements.lock, every jar, the tests' own too
# Does nothing when nothing has changed. Safe to run from several shells at once.
set -euo pipefail
cd "$(dirname "$0")/.."
# Packages are compiled at their first import (see install_packages): told not to, every process would compile all that it imports.
unset PYTHONDONTWRITEBYTECODE

PART=${1:-dev}
VENV="$PWD/.venv"
JAVA_PACKAGES=(openjdk-21-jre-headless openjdk-17-jre-headless)
MISSING=()

# Programs that only tests use, each as "command package alternative…", installed with the part dev.
TEST_PROGRAMS=("chromium chromium chromium-browser")

case $PART in
  run) LOCK=requirements-run.lock ;;
  dev) LOCK=requirements.lock ;;
  *) echo "usage: $0 [run|dev]" >&2; exit 2 ;;
esac

say() { printf 'setup: %s\n' "$*" >&2; }

stop() {
  say "$*"
  exit 1
}

fingerprint() {
  local files=(requirements-run.lock pyproject.toml scripts/setup.sh src/icefloe/spark/jars.lock.json)
  [ "$1" = run ] || files+=(requirements.lock tests/jars.lock.json)
  cat "${files[@]}" | sha256sum | cut -d' ' -f1
}

is_set_up() { [ -x "$VENV/bin/icefloe" ] && [ -f "$VENV/$1.stamp" ] && [ "$(cat "$VENV/$1.stamp")" = "$(fingerprint "$1")" ]; }

# apt_get PACKAGE ALTERNATIVE…: the first that this Debian has, when we may install.
apt_get() {
  [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 1
  export DEBIAN_FRONTEND=noninteractive
  [ -n "$(find /var/lib/apt/lists -name '*_Packages*' -print -quit 2>/dev/null)" ] || apt-get update -qq >&2
  local package
  for package in "$@"; do
    apt-cache show "$package" >/dev/null 2>&1 || continue
    say "installing $package"
    apt-get install -y -qq --no-install-recommends "$package" >&2 && return 0
    # The list of packages may be older than what the mirror still has.
    apt-get update -qq >&2 && apt-get install -y -qq --no-install-recommends "$package" >&2 && return 0
  done
  return 1
}

stop_if_missing() {
  [ ${#MISSING[@]} -eq 0 ] && return 0
  stop "missing: ${MISSING[*]}; as root: apt-get install -y ${MISSING[*]}; then run this again"
}

find_python() {
  local candidate
  for candidate in python3 python3.13 python3.12 python3.11 /usr/bin/python3; do
    if command -v "$candidate" >/dev/null && "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      command -v "$candidate"
      return 0
    fi
  done
  return 1
}

make_venv() {
  "$PYTHON" -c 'import ensurepip, venv' 2>/dev/null || apt_get python3-venv || { MISSING+=(python3-venv); stop_if_missing; }
  if ! "$VENV/bin/python" -m pip --version >/dev/null 2>&1; then
    say "making .venv with $PYTHON"
    "$PYTHON" -m venv --clear "$VENV"
  fi
}

# PySpark comes as source: 400 MB of jars that pip packs into a wheel to unpack it again. Packing them without compressing
# them again saves 20 s; byte-compiling what is imported, when it is, instead of everything saves another 20.
install_packages() {
  say "installing the packages of $LOCK"
  printf '[bdist_wheel]\ncompression = stored\n' > .icefloe-build/distutils.cfg
  DIST_EXTRA_CONFIG="$PWD/.icefloe-build/distutils.cfg" \
    "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile --require-hashes -r "$LOCK"
  "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
}

# Everything of ours, and with it what commands and steps import: compiled now, also for a shell in which Python may write no bytecode.
compile_imported() {
  "$VENV/bin/python" - <<'PYTHON'
import importlib
import pkgutil
from contextlib import suppress
import icefloe
for module in pkgutil.walk_packages(icefloe.__path__, "icefloe.", onerror=lambda name: None):
    with suppress(Exception):  # what an extra of pip's brings may be missing
        importlib.import_module(module.name)
PYTHON
}

# Asked of the source with any Python: no package is needed for it. Only the answer "there is none" leads to an installation.
has_java() {
  local answer
  answer=$(PYTHONPATH=src "$PYTHON" - <<'PYTHON'
from icefloe.errors import MissingComponentError
from icefloe.spark import java
try:
    print(java.find().launcher)
except MissingComponentError:
    print("none")
PYTHON
  ) || stop "looking for Java failed"
  [ "$answer" != none ]
}

fetch_jars() {
  say "fetching the jars"
  "$VENV/bin/python" - "$PART" <<'PYTHON'
import sys
from pathlib import Path
from icefloe.config import from_dict
from icefloe.errors import IcefloeError
from icefloe.spark import jars, java

if sys.argv[1] == "run":
    wanted = jars.required(from_dict({}, root=Path.cwd()))
else:
    wanted = (*jars.locked(), *jars.locked(Path("tests/jars.lock.json")))
try:
    jars.ensure(wanted, java.find().launcher, note=lambda line: print(f"setup: {line}", file=sys.stderr))
except IcefloeError as error:
    sys.exit(f"setup: {error}\n  → {error.hint}")
PYTHON
}

mkdir -p .icefloe-build
exec 9>.icefloe-build/setup.lock
if ! flock -n 9; then
  say "waiting for the set-up that another shell is running"
  flock 9
fi
is_set_up "$PART" && exit 0

PYTHON=$(find_python) || { apt_get python3 && PYTHON=$(find_python); } || stop "Python 3.11 or newer is needed; as root: apt-get install -y python3 python3-venv"
make_venv
# Java comes while the packages do: one waits for the network and dpkg, the other for pip.
JAVA_JOB=
has_java || { apt_get "${JAVA_PACKAGES[@]}" & JAVA_JOB=$!; }
install_packages
[ -z "$JAVA_JOB" ] || wait "$JAVA_JOB" || true
has_java || MISSING+=("${JAVA_PACKAGES[0]}")
if [ "$PART" = dev ]; then
  for line in ${TEST_PROGRAMS[@]+"${TEST_PROGRAMS[@]}"}; do
    read -r command packages <<<"$line"
    # shellcheck disable=SC2086
    command -v "$command" >/dev/null || apt_get $packages || MISSING+=("${packages%% *}")
  done
fi
stop_if_missing
compile_imported & COMPILE_JOB=$!
fetch_jars
wait "$COMPILE_JOB"
fingerprint run > "$VENV/run.stamp"
[ "$PART" = run ] || fingerprint dev > "$VENV/dev.stamp"
say "done: .venv/bin/icefloe"
