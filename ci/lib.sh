# SPDX-License-Identifier: MIT
# Shared by the scripts of ci/: sourced, never run. Leaves the caller in the root of the tree.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
JOBS=${JOBS:-$(nproc 2>/dev/null || echo 2)}

say() { printf '\n== %s\n' "$*"; }
die() { printf '%s\n' "$*" >&2; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }

# Installs those of the named Debian packages that are missing. Elsewhere, or without the right to
# install, it says what is missing and goes on: what cannot be built without them will say so.
need() {
    have dpkg-query || return 0
    local missing=() package
    for package in "$@"; do
        dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' ||
            missing+=("$package")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    local as=()
    [ "$(id -u)" = 0 ] || as=(sudo -n)
    say "installing ${missing[*]}"
    if ! { "${as[@]}" apt-get update -qq &&
           DEBIAN_FRONTEND=noninteractive "${as[@]}" apt-get install -y -qq \
               --no-install-recommends "${missing[@]}" >/dev/null; }; then
        printf 'could not install: %s\n' "${missing[*]}" >&2
    fi
}

need_build() {
    need gcc libc6-dev cmake make ninja-build pkg-config zlib1g-dev libzstd-dev libjson-c-dev
}

need_test() {
    need_build
    need g++ binutils libcriterion-dev clang lcov python3 python3-venv
    if [ "$(uname -m)" = x86_64 ]; then need gcc-multilib; fi
}

# configure DIR [cmake arguments]: quiet unless it fails, but for what is left out of build/.
configure() {
    local dir=$1 log; shift
    log=$(cmake -S . -B "$dir" -G Ninja "$@" 2>&1) || { printf '%s\n' "$log"; return 1; }
    [ "$dir" != build ] || printf '%s\n' "$log" | sed -n 's/^-- Weir: //p'
}
