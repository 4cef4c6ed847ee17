#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The core as a module of the Linux kernel: builds weir_test.ko, of the core, the simulated device
# and the same unit and property tests as in user space, and weir_vram.ko, the example of
# docs/kernel.md, against Debian's kernel headers, looks at them with sparse, loads them in Debian's stock kernel
# under QEMU without KVM, and counts the results. 77 and one line where that can't be set up.
#
#   ci/kernel.sh [--compare] [--keep DIR]
#
#   --compare   also the comparison with the kernel's own range allocators
#   --keep DIR  builds there and leaves everything
source "$(dirname "$0")/kernel-lib.sh"
compare='' work=''
while [ $# -gt 0 ]; do
    case $1 in
        --compare) compare=1 ;;
        --keep) work=${2:?}; shift ;;
        *) die "usage: ci/kernel.sh [--compare] [--keep DIR]" ;;
    esac
    shift
done

[ "$(uname -m)" = x86_64 ] || skip "the guest is x86-64"
need linux-headers-amd64 qemu-system-x86 busybox-static cpio kmod gcc make libelf-dev sparse
for tool in qemu-system-x86_64 sparse cpio make gcc; do
    have $tool || skip "$tool can't be installed"
done
[ -x /bin/busybox ] || skip "busybox can't be installed"
headers=$(find /usr/src -maxdepth 1 -name "linux-headers-*-amd64" 2>/dev/null | sort -V | tail -1)
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

# Of all but the tests, which give constants to functions that cut them on purpose.
sparse_clean() {
    local objects
    objects=$(cd "$work/module" && printf '%s\n' ./*.c core/*.c sim/*.c | sed 's/c$/o/')
    # shellcheck disable=SC2086
    make -C "$headers" M="$work/module" C=2 CHECK=sparse $objects >"$work/sparse.log" 2>&1 ||
        { cat "$work/sparse.log"; return 1; }
    grep -q CHECK "$work/sparse.log" && ! grep -E 'warning:|error:' "$work/sparse.log"
}

# What the guest does: loads each module and says how that went.
guest() {
    local root=$work/root name
    rm -rf "$root"
    mkdir -p "$root/m"
    cp "$work"/module/*.ko "$root/m/"
    {
        echo 'echo 7 >/proc/sys/kernel/printk'
        if [ -n "$compare" ]; then
            # These two need no other.
            for name in drm drm_buddy; do
                cp "$work/img/lib/modules/$release/kernel/drivers/gpu/drm/$name.ko" "$root/m/"
                echo "/bin/busybox insmod /m/$name.ko"
            done
        fi
        for name in $modules; do
            echo "/bin/busybox insmod /m/$name.ko; echo \"weir-guest: $name \$?\""
        done
    } | pack "$root" "$work/initramfs.gz"
}

modules="weir_vram weir_test"
if [ -n "$compare" ]; then modules+=" weir_compare"; fi
image || skip "the image of linux-image-$release can't be had"
say "building against $release"
lay_out "$work/module"
build_modules "$headers" "$work/module" || die "the modules do not build cleanly"
sparse_clean || die "sparse has something to say"
guest
say "booting"
boot 170 1024 "$work/img/boot/vmlinuz-$release" "$work/initramfs.gz" "$work/guest.txt" || true
sed -n 's/^weir_compare: /compare: /p' "$work/guest.txt"
verdict "$work/guest.txt" "$(grep -c '^	{"' "$work/module/list.c")" "$modules"
