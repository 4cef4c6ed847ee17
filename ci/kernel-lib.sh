# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# What ci/kernel.sh and ci/kernel-debug.sh share: sourced, never run.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# The tests that need nothing but the core and the simulated device; those of processes, of
# configuration files and of real devices are not the kernel's, and corners' stacks are too deep.
kernel_unit="base block came_and_went check crowded device domain faults full gone idle idle_trim kept
    ladder layout limbo meanwhile observer order pages pin pool range range_check refusal rescue
    resize segment seldom shadow short sim sim_oracle sim_oracle_calls stats stream survivors trim"
kernel_property="faults single segments streams"

skip() { echo "skipped: $*"; exit 77; }

# lay_out DIR: one folder that Kbuild can read.
lay_out() {
    local at=$1 name
    rm -rf "$at"
    mkdir -p "$at/core" "$at/sim" "$at/support" "$at/unit"
    cp -r kernel/* "$at/"
    cp core/*.[ch] "$at/core/"
    cp backends/sim/*.[ch] "$at/sim/"
    cp tests/support/*.[ch] "$at/support/"
    cp tests/unit/*.h "$at/unit/"
    for name in $kernel_unit; do cp "tests/unit/${name}_test.c" "$at/unit/"; done
    for name in $kernel_property; do
        cp "tests/property/${name}_test.c" "$at/unit/property_${name}_test.c"
    done
    awk -f kernel/tests.awk "$at"/unit/*.c "$at"/platform_test.c >"$at/list.c"
}

# build_modules KERNEL DIR [arguments of make]: in DIR, without a warning.
build_modules() {
    local kernel=$1 at=$2 log=$2.log; shift 2
    make -j "$JOBS" -C "$kernel" M="$at" "$@" modules >"$log" 2>&1 || { cat "$log"; return 1; }
    ! grep -E 'warning:|error:' "$log"
}

# pack ROOT FILE: an initramfs of ROOT, whose init comes from stdin.
pack() {
    local root=$1 file=$2
    mkdir -p "$root/bin" "$root/proc" "$root/sys"
    cp /bin/busybox "$root/bin/"
    { printf '#!/bin/busybox sh\n/bin/busybox mount -t proc proc /proc\n'; cat
      printf '/bin/busybox reboot -f\n'; } >"$root/init"
    chmod +x "$root/init"
    (cd "$root" && find . | cpio -o -H newc --quiet | gzip -1) >"$file"
}

# boot SECONDS MEMORY KERNEL INITRAMFS LOG: without KVM, so that it runs anywhere. LOG loses its
# times of day.
boot() {
    local seconds=$1 memory=$2 kernel=$3 initramfs=$4 log=$5 rc=0
    timeout "$seconds" qemu-system-x86_64 -accel tcg -cpu max -smp 2 -m "$memory" -nographic \
        -no-reboot -kernel "$kernel" -initrd "$initramfs" \
        -append "console=ttyS0 panic=-1 oops=panic reboot=t" </dev/null >"$log.raw" 2>&1 || rc=$?
    tr -d '\r' <"$log.raw" | sed -E 's/^\[ *[0-9.]*\] //' >"$log"
    [ "$rc" = 0 ] || echo "the guest did not end by itself ($rc): $(tail -3 "$log")"
    return "$rc"
}

# verdict LOG TESTS MODULES: prints what failed and, last, the counts. TESTS were to run, MODULES to
# load; a test that is missing, a module that does not load and a report of the kernel are failures.
verdict() {
    local log=$1 tests=$2 modules=$3 module passed failed skipped lost reports
    local name='[0-9]+ [a-z_0-9]+[.][a-z_0-9]+'
    local report='WARNING:|BUG:|UBSAN:|Oops|Kernel panic|unreferenced object|INFO: (task|rcu|lockdep)'
    grep -hE -A8 "^ *not ok $name|$report" "$log" | head -80 || true
    grep -E '^ *# [a-z_]*:? ?.*[.]c:[0-9]+: |pieces of memory' "$log" | head -40 || true
    passed=$(grep -E "^ *ok $name" "$log" | grep -vc '# SKIP' || true)
    skipped=$(grep -cE "^ *ok $name # SKIP" "$log" || true)
    failed=$(grep -cE "^ *not ok $name" "$log" || true)
    reports=$(grep -cE "$report" "$log" || true)
    lost=$((tests - passed - failed - skipped))
    [ "$lost" = 0 ] || echo "$lost of $tests tests did not run"
    for module in $modules; do
        grep -qx "weir-guest: $module 0" "$log" && continue
        echo "$module did not load"
        failed=$((failed + 1))
    done
    failed=$((failed + (lost < 0 ? -lost : lost) + reports))
    echo "$passed passed, $failed failed, $skipped skipped"
    [ "$passed" -ge 60 ] && [ "$failed" = 0 ]
}
