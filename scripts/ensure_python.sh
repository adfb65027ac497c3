#!/usr/bin/env bash
# Makes a virtual environment in $1 with Python 3.11 or newer; installs Debian's python3-venv where that is missing and may be done.
set -euo pipefail
target=$1

say() { printf '%s\n' "$*" >&2; }

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; elif command -v sudo >/dev/null; then sudo "$@"; else return 1; fi
}

find_python() {
  for candidate in python3 python3.14 python3.13 python3.12 python3.11; do
    if command -v "$candidate" >/dev/null && "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
      command -v "$candidate"
      return 0
    fi
  done
  return 1
}

install() {
  command -v apt-get >/dev/null || return 1
  say "Installing Debian packages: $*"
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq update >/dev/null &&
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "$@" >/dev/null
}

python=$(find_python) || { install python3 python3-venv && python=$(find_python); } || {
  say "Python 3.11 or newer is wanted (Debian 12, Ubuntu 24.04 or newer have it as python3)."
  exit 1
}
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
  version=$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
  install "$version" || install python3-venv || {
    say "The module venv is missing: sudo apt-get install $version"
    exit 1
  }
fi
rm -rf "$target"
"$python" -m venv "$target"
