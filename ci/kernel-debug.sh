#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The modules of ci/kernel.sh on a kernel that looks: builds Debian's kernel source with KASAN,
# lockdep, UBSAN, kmemleak, slab debugging and failing allocations, boots it under QEMU without KVM,
# runs the tests, once more while one in FAIL allocations fails, and asks kmemleak. Takes some 10
# minutes on two cores, and 8 GB of disk in DIR.
#
#   ci/kernel-debug.sh [DIR]     DIR: where the kernel is built and kept (build-kernel)
source "$(dirname "$0")/lib.sh"
work=${1:-build-kernel}
need linux-source-6.1 qemu-system-x86 busybox-static cpio kmod gcc make flex bison bc libelf-dev \
    libssl-dev xz-utils rsync
have qemu-system-x86_64 || { echo "skipped: QEMU can't be installed"; exit 77; }
[ -r /usr/src/linux-source-6.1.tar.xz ] || { echo "skipped: there is no linux-source-6.1"; exit 77; }
mkdir -p "$work"
work=$(cd "$work" && pwd)
built=$work/kernel

configuration() {
    printf 'CONFIG_%s=y\n' 64BIT SMP PRINTK TTY SERIAL_8250 SERIAL_8250_CONSOLE BLK_DEV_INITRD \
        RD_GZIP BINFMT_ELF BINFMT_SCRIPT PROC_FS SYSFS DEBUG_FS MODULES MODULE_UNLOAD ACPI SLUB \
        SLUB_DEBUG KUNIT KASAN KASAN_GENERIC KASAN_OUTLINE DEBUG_KERNEL PROVE_LOCKING \
        DEBUG_ATOMIC_SLEEP DEBUG_LIST DEBUG_KMEMLEAK UBSAN FAULT_INJECTION FAILSLAB \
        FAULT_INJECTION_DEBUG_FS STACKTRACE PANIC_ON_OOPS VMAP_STACK DMA_SHARED_BUFFER PCI DRM \
        DRM_VGEM
    echo 'CONFIG_UBSAN_TRAP=n'
    echo 'CONFIG_FRAME_WARN=2048'
}

kernel() {
    [ ! -r "$built/arch/x86/boot/bzImage" ] || return 0
    say "building the kernel"
    tar xf /usr/src/linux-source-6.1.tar.xz -C "$work"
    mkdir -p "$built"
    make -C "$work/linux-source-6.1" O="$built" tinyconfig >/dev/null
    configuration >>"$built/.config"
    make -C "$work/linux-source-6.1" O="$built" olddefconfig >/dev/null
    for option in KASAN PROVE_LOCKING UBSAN DEBUG_KMEMLEAK FAILSLAB MODULES KUNIT DMA_SHARED_BUFFER; do
        grep -q "^CONFIG_$option=y" "$built/.config" || die "the kernel can't have $option"
    done
    make -C "$work/linux-source-6.1" O="$built" -j "$JOBS" bzImage modules >"$work/kernel.log" 2>&1 ||
        { tail -20 "$work/kernel.log"; return 1; }
}

# The modules as ci/kernel.sh lays them out.
modules() {
    say "building the modules"
    ci/kernel.sh --lay-out "$work/module"
    make -C "$built" M="$work/module" -j "$JOBS" modules >"$work/module.log" 2>&1 ||
        { tail -30 "$work/module.log"; return 1; }
}

initramfs() {
    local root=$work/root
    rm -rf "$root"
    mkdir -p "$root/bin" "$root/proc" "$root/sys" "$root/m"
    cp /bin/busybox "$root/bin/"
    cp "$work"/module/weir_test.ko "$work"/module/weir_vram.ko "$root/m/"
    cat >"$root/init" <<'END'
#!/bin/busybox sh
b=/bin/busybox
$b mount -t proc proc /proc
$b mount -t sysfs sys /sys
$b mount -t debugfs debug /sys/kernel/debug
$b insmod /m/weir_vram.ko; echo "weir-guest: weir_vram $?"
$b insmod /m/weir_test.ko; echo "weir-guest: weir_test $?"
$b rmmod weir_test weir_vram
f=/sys/kernel/debug/failslab
echo 2 >$f/probability; echo -1 >$f/times; echo 0 >$f/verbose; echo N >$f/ignore-gfp-wait; echo Y >$f/task-filter
echo "weir-guest: failing allocations"
echo 1 >/proc/self/make-it-fail
$b insmod /m/weir_vram.ko; echo "weir-guest: failslab $?"
echo 0 >/proc/self/make-it-fail
$b rmmod weir_vram 2>/dev/null
$b sleep 6
echo scan >/sys/kernel/debug/kmemleak
$b sleep 6
echo scan >/sys/kernel/debug/kmemleak
echo "weir-guest: leaks $($b grep -c 'unreferenced object' /sys/kernel/debug/kmemleak)"
$b grep -A20 'unreferenced object' /sys/kernel/debug/kmemleak | $b head -60
$b reboot -f
END
    chmod +x "$root/init"
    (cd "$root" && find . | cpio -o -H newc --quiet | gzip -1) >"$work/initramfs.gz"
}

kernel
modules
initramfs
say "booting"
timeout 900 qemu-system-x86_64 -accel tcg -cpu max -smp 2 -m 3072 -nographic -no-reboot \
    -kernel "$built/arch/x86/boot/bzImage" -initrd "$work/initramfs.gz" \
    -append "console=ttyS0 panic=-1 oops=panic reboot=t slub_debug=FZPU kmemleak=on" \
    </dev/null >"$work/guest.log" 2>&1 || die "the guest did not end by itself: $(tail -3 "$work/guest.log")"
tr -d '\r' <"$work/guest.log" | sed 's/^\[ *[0-9.]*\] //' >"$work/guest.txt"
passed=$(grep -cE '^(weir_test: )?ok [0-9]+ ' "$work/guest.txt" || true)
failed=$(grep -cE '^(weir_test: )?not ok [0-9]+ ' "$work/guest.txt" || true)
planned=$(sed -nE 's/^(weir_test: )?1\.\.([0-9]+)$/\2/p' "$work/guest.txt")
lost=$((${planned:-0} - passed - failed))
grep -A12 -E '^(weir_test: )?not ok|WARNING:|BUG:|UBSAN:|Oops|possible.*deadlock|unreferenced object' \
    "$work/guest.txt" | head -80 || true
reports=$(grep -cE 'WARNING:|BUG:|UBSAN:|Oops|Kernel panic|unreferenced object' "$work/guest.txt" || true)
grep -E '^weir-guest:|^weir_vram:' "$work/guest.txt" || true
grep -q '^weir-guest: leaks 0$' "$work/guest.txt" || lost=$((lost + 1))
echo "$passed passed, $((failed + lost + reports)) failed, 0 skipped"
[ "$passed" -ge 60 ] && [ $((failed + lost + reports)) = 0 ]
