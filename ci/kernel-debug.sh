#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The modules of ci/kernel.sh on a kernel that looks: builds Debian's kernel source with
# kernel/debug.config (KUnit, KASAN, lockdep, UBSAN, kmemleak, failing allocations), boots it under
# QEMU without KVM, runs the tests as a suite of KUnit, loads the example again and again while one
# in 50 allocations fails, and asks kmemleak. checkpatch --strict, which comes with the source,
# reads the platform layer. Some 10 minutes on two cores, and 4 GB of disk in DIR.
#
#   ci/kernel-debug.sh [DIR]     DIR: where the kernel is built and kept (build-kernel)
source "$(dirname "$0")/kernel-lib.sh"
work=${1:-build-kernel}
[ "$(uname -m)" = x86_64 ] || skip "the guest is x86-64"
need linux-source-6.1 qemu-system-x86 busybox-static cpio kmod gcc make flex bison bc perl \
    libelf-dev libssl-dev xz-utils
for tool in qemu-system-x86_64 cpio make gcc flex bison bc xz; do
    have $tool || skip "$tool can't be installed"
done
archive=/usr/src/linux-source-6.1.tar.xz
[ -r $archive ] || skip "there is no linux-source-6.1"
mkdir -p "$work"
work=$(cd "$work" && pwd)
source=$work/linux-source-6.1
built=$work/kernel

# Anew only where the configuration or Debian's source is another.
kernel() {
    local stamp option
    stamp="$(cat kernel/debug.config) $(stat -c '%s %Y' $archive)"
    [ "$stamp" != "$(cat "$work/stamp" 2>/dev/null)" ] || return 0
    say "building the kernel"
    rm -rf "$source" "$built"
    tar xf $archive -C "$work"
    mkdir -p "$built"
    make -C "$source" O="$built" tinyconfig >/dev/null
    cat kernel/debug.config >>"$built/.config"
    make -C "$source" O="$built" olddefconfig >/dev/null
    while read -r option; do
        grep -qxF "$option" "$built/.config" || die "the kernel can't have $option"
    done < <(grep -v '^#' kernel/debug.config)
    nice make -C "$source" O="$built" -j "$JOBS" bzImage modules >"$work/kernel.log" 2>&1 ||
        { tail -20 "$work/kernel.log"; return 1; }
    printf '%s' "$stamp" >"$work/stamp"
}

checkpatch() {
    say "checkpatch"
    local file bad=0
    for file in kernel/*.[ch]; do
        "$source/scripts/checkpatch.pl" --root="$source" --strict --ignore CAMELCASE \
            --terse --no-summary --file "$file" ||
            bad=1
    done
    return $bad
}

guest() {
    local root=$work/root
    rm -rf "$root"
    mkdir -p "$root/m"
    cp "$work"/module/weir_test.ko "$work"/module/weir_vram.ko "$root/m/"
    pack "$root" "$work/initramfs.gz" <<'END'
b=/bin/busybox
$b mount -t sysfs sys /sys
$b mount -t debugfs debug /sys/kernel/debug
d=/sys/kernel/debug
for f in failslab fail_page_alloc; do
    echo N >$d/$f/ignore-gfp-wait
    echo 0 >$d/$f/verbose
    echo 0 >$d/$f/probability
    echo Y >$d/$f/task-filter
    echo -1 >$d/$f/times
done
echo scan=off >$d/kmemleak
for m in weir_vram weir_test; do
    $b insmod /m/$m.ko
    echo "weir-guest: $m $?"
done
$b rmmod weir_test weir_vram
echo 2 >$d/failslab/probability
good=0 bad=0
for i in $($b seq 60); do
    if $b sh -c 'echo 1 >/proc/self/make-it-fail; exec /bin/busybox insmod /m/weir_vram.ko' 2>/dev/null
    then good=$((good + 1)); else bad=$((bad + 1)); fi
    $b rmmod weir_vram 2>/dev/null
done
echo 0 >$d/failslab/probability
echo "weir-guest: failing allocations: loaded $good times, refused $bad times"
# Objects of less than some seconds are not looked at, and the first scan of two only notes what
# objects hold. What the kernel itself seems to have lost while it booted does not count.
$b sleep 6
echo scan >$d/kmemleak
echo scan >$d/kmemleak
$b awk -v RS='unreferenced object' 'NR > 1 && !/swapper/ { print "unreferenced object" $0 }' \
    $d/kmemleak >/leaks
echo "weir-guest: leaks $($b grep -c 'unreferenced object' /leaks)"
$b head -60 /leaks
END
}

kernel
checkpatch || die "checkpatch has something to say"
say "building the modules"
lay_out "$work/module"
build_modules "$built" "$work/module" || die "the modules do not build cleanly"
guest
say "booting"
boot 1800 3072 "$built/arch/x86/boot/bzImage" "$work/initramfs.gz" "$work/guest.txt" || true
grep -E '^weir-guest:|^weir_vram:|allocations failed in turn' "$work/guest.txt" | sort | uniq -c || true
# Both must have happened, and kmemleak must have looked.
refused=$(sed -n 's/.*refused \([0-9]*\) times$/\1/p' "$work/guest.txt")
[ "${refused:-0}" -gt 0 ] || die "no allocation of the example failed"
grep -qx 'weir-guest: leaks 0' "$work/guest.txt" || die "kmemleak: $(grep leaks "$work/guest.txt")"
verdict "$work/guest.txt" "$(grep -c '^	{"' "$work/module/list.c")" "weir_vram weir_test"
