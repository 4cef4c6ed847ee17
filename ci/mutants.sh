#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Plants bugs in a copy of the core, one at a time, and counts those that the fast part of the suite
# sees. tests/mutants/mutants.py says how, tests/mutants/explained.tsv what may survive and why.
#
#   ci/mutants.sh --historical|--branch|--source [--limit N] [--verbose]
#
# --limit takes an evenly spread sample. The last line is the result:
# "N mutants, N caught, N explained, N survived". WEIR_MUTANTS_DIR: where to build, build-mutants.
source "$(dirname "$0")/lib.sh"

usage() { die "usage: ci/mutants.sh --historical|--branch|--source [--limit N] [--verbose]"; }

# universalmutator, in a place of its own.
need_mutate() {
    local venv; venv=$(realpath -m "$work-tools")
    need python3-venv
    if [ ! -x "$venv/bin/mutate" ]; then
        if ! python3 -m venv "$venv" || ! "$venv/bin/pip" install -q universalmutator; then
            echo "skipped: universalmutator can't be installed"
            exit 77
        fi
    fi
    PATH=$venv/bin:$PATH
}

work=${WEIR_MUTANTS_DIR:-build-mutants} kind='' options=()
while [ $# -gt 0 ]; do
    case $1 in
        --historical|--branch|--source) kind=${1#--} ;;
        --limit) options+=(--limit "${2:?}"); shift ;;
        --verbose) options+=(--verbose) ;;
        *) usage ;;
    esac
    shift
done
[ -n "$kind" ] || usage
need gcc libc6-dev make binutils patch python3
if [ "$kind" = branch ] && [ "$(uname -m)" != x86_64 ]; then
    echo "skipped: jumps are changed in the code of x86-64 only"
    exit 77
fi
[ "$kind" != source ] || need_mutate
exec python3 tests/mutants/mutants.py "$kind" "$work" "${options[@]}"
