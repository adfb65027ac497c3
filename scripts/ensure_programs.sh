#!/usr/bin/env bash
# The programs that the tests run beside our own: a C compiler, Prometheus' promtool, Chromium. Installs Debian's packages where it may.
set -euo pipefail

say() { printf '%s\n' "$*" >&2; }

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; elif command -v sudo >/dev/null; then sudo "$@"; else return 1; fi
}

missing=()
command -v cc >/dev/null || missing+=(gcc libc6-dev)
command -v promtool >/dev/null || missing+=(prometheus)
command -v chromium >/dev/null || command -v chromium-browser >/dev/null || missing+=(chromium)
[ ${#missing[@]} -gt 0 ] || exit 0

if command -v apt-get >/dev/null; then
  say "Installing Debian packages: ${missing[*]}"
  # Debian starts prometheus as a service on installation where it can; the tests need only its programs.
  as_root env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get -qq update >/dev/null &&
    as_root env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get -qq install -y --no-install-recommends "${missing[@]}" >/dev/null ||
    { say "Please install: ${missing[*]}"; exit 1; }
else
  say "Please install: ${missing[*]}"
  exit 1
fi
