#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The core as a module of the Linux kernel: builds weir_test.ko, of the core, the simulated device and
# the same unit and property tests as in user space, and weir_vram.ko, the example of docs/kernel.md,
# against Debian's kernel headers, loads them in Debian's stock kernel under QEMU without KVM, and
# counts the results. 77 and one line where that can't be set up.
#
#   ci/kernel.sh [--compare] [--keep DIR]
#
#   --compare  also the comparison with the kernel's own range allocators
#   --keep DIR builds there and leaves everything
#   ci/kernel.sh --lay-out DIR    the sources alone, as Kbuild wants them
source "$(dirname "$0")/lib.sh"
compare='' work='' lay_out_only=''
while [ $# -gt 0 ]; do
    case $1 in
        --compare) compare=1 ;;
        --keep) work=${2:?}; shift ;;
        --lay-out) lay_out_only=${2:?}; shift ;;
        *) die "usage: ci/kernel.sh [--compare] [--keep DIR], or --lay-out DIR" ;;
    esac
    shift
done

skip() { echo "skipped: $*"; exit 77; }

unit="base block check device domain faults kept ladder limbo observer order pages pin pool range
    range_check refusal rescue resize segment shadow sim sim_oracle sim_oracle_calls stats stream trim"
property="single segments streams"

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
    for name in $unit; do cp "tests/unit/${name}_test.c" "$at/unit/"; done
    for name in $property; do
        cp "tests/property/${name}_test.c" "$at/unit/property_${name}_test.c"
    done
    awk -f kernel/tests.awk "$at"/unit/*.c >"$at/list.c"
}

if [ -n "$lay_out_only" ]; then
    lay_out "$lay_out_only"
    exit 0
fi
[ "$(uname -m)" = x86_64 ] || skip "the guest is x86-64"
need linux-headers-amd64 qemu-system-x86 busybox-static cpio kmod gcc make libelf-dev
have qemu-system-x86_64 || skip "QEMU can't be installed"
[ -x /bin/busybox ] || skip "busybox can't be installed"
headers=$(ls -d /usr/src/linux-headers-*-amd64 2>/dev/null | sort -V | tail -1)
[ -n "$headers" ] || skip "there are no kernel headers for amd64"
release=${headers#/usr/src/linux-headers-}
if [ -z "$work" ]; then
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
fi
mkdir -p "$work"
work=$(cd "$work" && pwd)

# The image that belongs to the headers, unpacked and not installed.
image() {
    [ ! -r "$work/img/boot/vmlinuz-$release" ] || return 0
    (cd "$work" && apt-get download "linux-image-$release" >/dev/null 2>&1 &&
        dpkg-deb -x linux-image-"$release"_*.deb img && rm -f linux-image-*.deb)
}

build() {
    lay_out "$work/module"
    make -j "$JOBS" -C "$headers" M="$work/module" modules >"$work/build.log" 2>&1 ||
        { cat "$work/build.log"; return 1; }
    ! grep -E 'warning:' "$work/build.log"
}

# What the guest does: loads each module, says how that went, ends.
initramfs() {
    local root=$work/root modules_of=$work/img/lib/modules/$release/kernel name
    rm -rf "$root"
    mkdir -p "$root/bin" "$root/proc" "$root/m"
    cp /bin/busybox "$root/bin/"
    cp "$work"/module/*.ko "$root/m/"
    {
        printf '#!/bin/busybox sh\n/bin/busybox mount -t proc proc /proc\n'
        printf 'echo 7 >/proc/sys/kernel/printk\n'
        if [ -n "$compare" ]; then
            # These two need no other.
            for name in drm drm_buddy; do
                cp "$modules_of"/drivers/gpu/drm/$name.ko "$root/m/"
                printf '/bin/busybox insmod /m/%s.ko\n' "$name"
            done
        fi
        for name in "$@"; do
            printf '/bin/busybox insmod /m/%s.ko; echo "weir-guest: %s $?"\n' "$name" "$name"
        done
        printf '/bin/busybox reboot -f\n'
    } >"$root/init"
    chmod +x "$root/init"
    (cd "$root" && find . | cpio -o -H newc --quiet | gzip -1) >"$work/initramfs.gz"
}

boot() {
    timeout 170 qemu-system-x86_64 -accel tcg -cpu max -smp 2 -m 1024 -nographic -no-reboot \
        -kernel "$work/img/boot/vmlinuz-$release" -initrd "$work/initramfs.gz" \
        -append "console=ttyS0 panic=-1 oops=panic reboot=t" </dev/null >"$work/guest.log" 2>&1
}

image || skip "the image of linux-image-$release can't be had"
say "building against $release"
build || die "the module does not build without warnings"
modules="weir_vram weir_test"
if [ -n "$compare" ]; then modules+=" weir_compare"; fi
# shellcheck disable=SC2086
initramfs $modules
say "booting"
boot || die "the guest did not end by itself: $(tail -3 "$work/guest.log")"
tr -d '\r' <"$work/guest.log" | sed 's/^\[ *[0-9.]*\] //' >"$work/guest.txt"
passed=$(grep -cE '^(weir_test: )?ok [0-9]+ ' "$work/guest.txt" || true)
failed=$(grep -cE '^(weir_test: )?not ok [0-9]+ ' "$work/guest.txt" || true)
planned=$(sed -nE 's/^(weir_test: )?1\.\.([0-9]+)$/\2/p' "$work/guest.txt")
# A plan that was not carried out, a warning of the kernel or a module that did not load is a failure.
grep -A6 -E '^(weir_test: )?not ok|^weir_test: #|WARNING:|BUG:|Oops' "$work/guest.txt" | head -60 || true
lost=$((${planned:-0} - passed - failed))
for module in $modules; do
    grep -qx "weir-guest: $module 0" "$work/guest.txt" || { echo "$module did not load"; lost=$((lost + 1)); }
done
if grep -qE 'WARNING:|BUG:|Oops|Kernel panic' "$work/guest.txt"; then lost=$((lost + 1)); fi
sed -n 's/^weir_compare: /compare: /p' "$work/guest.txt"
echo "$passed passed, $((failed + lost)) failed, 0 skipped"
[ "$passed" -ge 60 ] && [ $((failed + lost)) = 0 ]
