#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# `weir run`: the environment that it makes, the status that it ends with, and what it refuses.
# run.sh WEIR STANDIN_FOLDER PROGRAM LEAKING_PROGRAM
set -euo pipefail
weir=$(realpath "$1") standin=$2 program=$(realpath "$3") leaking=$(realpath "$4")
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
failed=0
unset WEIR_CONF WEIR_PYTHON WEIR_TRACE WEIR_LEAKS LD_PRELOAD PYTHONPATH

bad() { printf 'not ok: %s\n' "$*"; failed=1; }
# refuses STATUS PART COMMAND...: one sentence on stderr with PART in it, nothing on stdout.
refuses() {
    local status=$1 part=$2 got=0
    shift 2
    "$@" >"$here/out" 2>"$here/err" || got=$?
    if [ "$got" != "$status" ] || [ -s "$here/out" ] || [ "$(wc -l <"$here/err")" != 1 ] ||
        ! grep -qF -- "$part" "$here/err"; then
        bad "$* ended with $got, not $status: $(cat "$here/out" "$here/err")"
    fi
}
variable() { sed -n "s/^$1=//p"; }

# What the command gets.
env=$("$weir" run --conf limit_mb:64 --trace t.csv --leaks -- env)
[[ $(variable LD_PRELOAD <<<"$env") == /*/libweir_preload.so ]] || bad "LD_PRELOAD: $env"
[ "$(variable WEIR_CONF <<<"$env")" = limit_mb:64 ] || bad "WEIR_CONF"
[ "$(variable WEIR_TRACE <<<"$env")" = "$PWD/t.csv" ] || bad "WEIR_TRACE"
[ "$(variable WEIR_LEAKS <<<"$env")" = 1 ] || bad "WEIR_LEAKS"
library=$(variable LD_PRELOAD <<<"$env")

# What is there stays, in its order, and nothing comes twice.
cc -shared -o "$here/first.so" -x c /dev/null
got=$(LD_PRELOAD=$here/first.so "$weir" run env | variable LD_PRELOAD)
[ "$got" = "$here/first.so:$library" ] || bad "LD_PRELOAD became $got"
got=$(LD_PRELOAD="$library $here/first.so" "$weir" run env | variable LD_PRELOAD)
[ "$got" = "$library $here/first.so" ] || bad "LD_PRELOAD became $got"
got=$(WEIR_CONF=limit_mb:32 "$weir" run env | variable WEIR_CONF)
[ "$got" = limit_mb:32 ] || bad "WEIR_CONF became $got"

# Python's start-up folder.
mkdir "$here/startup"
touch "$here/startup/sitecustomize.py"
got=$(PYTHONPATH=/x WEIR_PYTHON=$here/startup "$weir" run env | variable PYTHONPATH)
[ "$got" = "$here/startup:/x" ] || bad "PYTHONPATH became $got"

# The status is the command's; so are its arguments, options included.
for status in 0 1 77; do
    got=0
    "$weir" run -- sh -c "exit $status" || got=$?
    [ "$got" = "$status" ] || bad "a command's status $status became $got"
done
[ "$("$weir" run echo --conf x)" = '--conf x' ] || bad 'arguments of the command were read'
got=0
"$weir" run -- sh -c 'kill -TERM $$' || got=$?
[ "$got" = 143 ] || bad "a command killed by a signal ended with $got"

# Weir serves the command.
LD_LIBRARY_PATH=$standin "$weir" run --conf limit_mb:128 -- "$program" || bad 'Weir did not serve'

# A trace that replay reads, and a report of what was left, not of what was freed.
said=$(LD_LIBRARY_PATH=$standin "$weir" run --trace "$here/t.csv" --leaks "$leaking" 2>&1)
[[ $said == *'7.00 MiB'* ]] || bad "the leaks were: $said"
[[ $said != *'5.00 MiB'* ]] || bad "what was freed is called a leak: $said"
[ "$(grep -c '^a,' "$here/t.csv") $(grep -c '^f,' "$here/t.csv")" = '3 1' ] ||
    bad "the trace was: $(cat "$here/t.csv")"
"$weir" replay "$here/t.csv" >/dev/null || bad 'the trace could not be replayed'

refuses 2 'needs a command' "$weir" run
refuses 2 'needs a command' "$weir" run --leaks --
refuses 2 'limit_mb' "$weir" run --conf limitmb:1 -- true
refuses 2 'limit_mb' env WEIR_CONF=limitmb:1 "$weir" run -- true
refuses 2 'needs a value' "$weir" run --conf
refuses 2 'no option --nothing' "$weir" run --nothing -- true
refuses 2 'WEIR_PYTHON' env WEIR_PYTHON=/nowhere "$weir" run -- true
refuses 127 "can't be started" "$weir" run -- "$here/nothing"
refuses 126 "can't be started" "$weir" run -- "$here"
mkdir -p "$here/lost/bin" "$here/a b/bin"
cp "$weir" "$here/lost/bin/weir"
refuses 2 'libweir_preload.so was not found' "$here/lost/bin/weir" run -- true
cp "$weir" "$here/a b/bin/weir"
cp "$library" "$here/a b/"
refuses 2 'a colon or a blank' "$here/a b/bin/weir" run -- true

[ "$failed" = 0 ] && echo 'run: all as it should be'
exit "$failed"
