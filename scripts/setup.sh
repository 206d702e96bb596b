#!/usr/bin/env bash
# Makes a fresh Debian machine ready: .venv with the locked packages, Java 17 or 21, Chromium, and Spark's jars.
# Does nothing when nothing has changed. Safe to run from several shells at once.
set -euo pipefail
cd "$(dirname "$0")/.."

VENV="$PWD/.venv"
STAMP="$VENV/setup.stamp"
MISSING=()

say() { printf 'setup: %s\n' "$*" >&2; }

fingerprint() {
  cat requirements.lock pyproject.toml scripts/setup.sh src/icefloe/spark/jars.lock.json tests/jars.lock.json | sha256sum | cut -d' ' -f1
}

is_set_up() { [ -x "$VENV/bin/icefloe" ] && [ -f "$STAMP" ] && [ "$(cat "$STAMP")" = "$(fingerprint)" ] && has_chromium; }

has_chromium() { command -v chromium || command -v chromium-browser || command -v google-chrome; } >/dev/null 2>&1

# apt_get PACKAGE ALTERNATIVE…: the first that this Debian has, when we may install; else it is noted as missing.
apt_get() {
  if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    MISSING+=("$1")
    return 1
  fi
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
  MISSING+=("$1")
  return 1
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

stop() {
  say "$*"
  exit 1
}

stop_if_missing() {
  [ ${#MISSING[@]} -eq 0 ] && return 0
  stop "missing: ${MISSING[*]}; as root: apt-get install -y ${MISSING[*]}; then run this again"
}

make_venv() {
  local python
  python=$(find_python) || { apt_get python3 && python=$(find_python); } || stop "Python 3.11 or newer is needed; as root: apt-get install -y python3 python3-venv"
  "$python" -c 'import ensurepip, venv' 2>/dev/null || apt_get python3-venv || stop_if_missing
  if ! "$VENV/bin/python" -m pip --version >/dev/null 2>&1; then
    say "making .venv with $python"
    "$python" -m venv --clear "$VENV"
  fi
  say "installing the locked packages"
  "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
  "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
}

# Only the answer "there is none" leads to an installation: any other failure of the look is a failure of the set-up.
has_java() {
  local answer
  answer=$("$VENV/bin/python" - <<'PYTHON'
from icefloe.errors import MissingComponentError
from icefloe.spark import java
try:
    print(java.find().launcher)
except MissingComponentError:
    print("none")
PYTHON
  ) || stop "the installed package does not work"
  [ "$answer" != none ]
}

mkdir -p .icefloe-build
exec 9>.icefloe-build/setup.lock
if ! flock -n 9; then
  say "waiting for the set-up that another shell is running"
  flock 9
fi
is_set_up && exit 0

make_venv
has_java || apt_get openjdk-21-jre-headless openjdk-17-jre-headless || true
has_chromium || apt_get chromium || true
stop_if_missing
say "fetching the jars"
"$VENV/bin/python" - <<'PYTHON'
import sys
from pathlib import Path
from icefloe.errors import IcefloeError
from icefloe.spark import jars, java

try:
    wanted = (*jars.locked(), *jars.locked(Path("tests/jars.lock.json")))
    jars.ensure(wanted, java.find().launcher, note=lambda line: print(f"setup: {line}", file=sys.stderr))
except IcefloeError as error:
    sys.exit(f"setup: {error}\n  → {error.hint}")
PYTHON
fingerprint > "$STAMP"
say "done: .venv/bin/icefloe"
