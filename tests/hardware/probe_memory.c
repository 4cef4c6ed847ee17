/* SPDX-License-Identifier: MIT */
/*
 * Memory made of handles: moves by aliasing that nobody waits for, and what a kernel's bandwidth is
 * over one large handle, many small ones and aliases of small ones in no order.
 *
 * The kernel that copies is PTX, as those of backends/cuda are; each thread moves 16 bytes at a time.
 */
#define _GNU_SOURCE
#include "probe.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* -------------------------------------------------------------------------------------- moves -- */

#define MOVES_PLACES 64u

/* A handle goes from place to place. At each its old contents are checked and new ones written by
 * work that is queued behind what goes on at the place before, and nothing is waited for. */
static void moves_all(probe_rig *rig, uint64_t base, uint64_t handle, unsigned count)
{
    const weir_driver *driver = &rig->driver;
    weir_cu_stream stream = probe_stream(rig);
    uint64_t native = (uint64_t)(uintptr_t)stream;
    for (unsigned i = 0; i < count; i++) {
        uint64_t at = base + i % MOVES_PLACES * PROBE_PIECE;
        if (i % MOVES_PLACES == 0) {
            weir_cuda_work_spin(rig->work, native, 2000); /* so that work lags behind */
        }
        probe_must(rig, driver->map(at, PROBE_PIECE, 0, handle, 0), "cuMemMap of an alias");
        probe_must(rig, driver->set_access(at, PROBE_PIECE, &rig->access, 1), "its access");
        if (i > 0) {
            weir_cuda_work_verify(rig->work, native, at, PROBE_PIECE, i);
        }
        weir_cuda_work_fill(rig->work, native, at, PROBE_PIECE, i + 1);
        if (i % MOVES_PLACES == MOVES_PLACES - 1) {
            probe_must(rig, driver->stream_sync(stream), "the work of the moves");
            probe_must(rig, driver->unmap(base, MOVES_PLACES * PROBE_PIECE), "cuMemUnmap");
        }
    }
}

void probe_moves(probe_rig *rig)
{
    const weir_driver *driver = &rig->driver;
    unsigned count = (rig->quick ? 8 : 64) * MOVES_PLACES;
    uint64_t base = 0, handle = 0;
    probe_must(rig, driver->va_reserve(&base, MOVES_PLACES * PROBE_PIECE, 0, 0, 0), "addresses");
    probe_must(rig, driver->handle_create(&handle, PROBE_PIECE, &rig->prop, 0), "a handle");
    moves_all(rig, base, handle, count);
    uint64_t wrong = weir_cuda_work_errors(rig->work);
    probe_must(rig, driver->handle_release(handle), "cuMemRelease");
    probe_must(rig, driver->va_free(base, MOVES_PLACES * PROBE_PIECE), "cuMemAddressFree");
    probe_fact("moves", "\"moves\":%u,\"wrong_words\":%" PRIu64, count, wrong);
    hw_result("contents are there through an alias without a wait", wrong == 0,
              "%u moves, %" PRIu64 " wrong words", count, wrong);
}

/* --------------------------------------------------------------------------------- bandwidth -- */

static const char bandwidth_kernel[] =
    ".version 6.3\n"
    ".target sm_70\n"
    ".address_size 64\n"
    ".visible .entry hw_copy(\n"
    "  .param .u64 hw_copy_to, .param .u64 hw_copy_from, .param .u64 hw_copy_count)\n"
    "{\n"
    "  .reg .pred %p<2>;\n"
    "  .reg .b32 %r<8>;\n"
    "  .reg .b64 %d<12>;\n"
    "  ld.param.u64 %d0, [hw_copy_to];\n"
    "  ld.param.u64 %d1, [hw_copy_from];\n"
    "  ld.param.u64 %d2, [hw_copy_count];\n"
    "  cvta.to.global.u64 %d0, %d0;\n"
    "  cvta.to.global.u64 %d1, %d1;\n"
    "  mov.u32 %r0, %ctaid.x;\n"
    "  mov.u32 %r1, %ntid.x;\n"
    "  mov.u32 %r2, %tid.x;\n"
    "  mov.u32 %r3, %nctaid.x;\n"
    "  cvt.u64.u32 %d4, %r2;\n"
    "  mad.wide.u32 %d3, %r0, %r1, %d4;\n"
    "  mul.wide.u32 %d5, %r3, %r1;\n"
    "COPY_NEXT:\n"
    "  setp.ge.u64 %p0, %d3, %d2;\n"
    "  @%p0 bra COPY_END;\n"
    "  shl.b64 %d6, %d3, 4;\n"
    "  add.u64 %d7, %d1, %d6;\n"
    "  add.u64 %d8, %d0, %d6;\n"
    "  ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%d7];\n"
    "  st.global.v4.u32 [%d8], {%r4, %r5, %r6, %r7};\n"
    "  add.u64 %d3, %d3, %d5;\n"
    "  bra COPY_NEXT;\n"
    "COPY_END:\n"
    "  ret;\n"
    "}\n";

#define BANDWIDTH_THREADS 512u
#define BANDWIDTH_BLOCKS (132u * 16u)
#define BANDWIDTH_SHARE 0.95 /* of one large handle's: what small ones have to reach */

/* An area twice as large as what is copied; `alias`: mapped a second time, in no order, and used
 * there. */
typedef struct bandwidth_area {
    uint64_t bytes, piece;
    uint64_t base, used; /* `used` is where the kernel works */
    uint64_t *handle;
    size_t count;
} bandwidth_area;

static void bandwidth_map(probe_rig *rig, const bandwidth_area *area, uint64_t base)
{
    for (size_t i = 0; i < area->count; i++) {
        uint64_t at = base + i * area->piece;
        probe_must(rig, rig->driver.map(at, area->piece, 0, area->handle[i], 0), "cuMemMap");
        probe_must(rig, rig->driver.set_access(at, area->piece, &rig->access, 1), "its access");
    }
}

static void bandwidth_shuffle(bandwidth_area *area)
{
    uint32_t random = 5;
    for (size_t i = area->count - 1; i > 0; i--) {
        size_t other = hw_random(&random) % (i + 1);
        uint64_t handle = area->handle[i];
        area->handle[i] = area->handle[other];
        area->handle[other] = handle;
    }
}

static bool bandwidth_open(probe_rig *rig, bandwidth_area *area, bool alias)
{
    area->count = area->bytes / area->piece;
    area->handle = (uint64_t *)calloc(area->count, sizeof(*area->handle));
    if (!area->handle) {
        return false;
    }
    for (size_t i = 0; i < area->count; i++) {
        probe_must(rig, rig->driver.handle_create(&area->handle[i], area->piece, &rig->prop, 0),
                   "cuMemCreate");
    }
    probe_must(rig, rig->driver.va_reserve(&area->base, area->bytes * 2, 0, 0, 0), "addresses");
    bandwidth_map(rig, area, area->base);
    area->used = area->base;
    if (alias) {
        bandwidth_shuffle(area);
        area->used = area->base + area->bytes;
        bandwidth_map(rig, area, area->used);
    }
    return true;
}

static void bandwidth_close(probe_rig *rig, bandwidth_area *area)
{
    probe_must(rig, rig->driver.unmap(area->base, area->bytes), "cuMemUnmap");
    if (area->used != area->base) {
        probe_must(rig, rig->driver.unmap(area->used, area->bytes), "cuMemUnmap");
    }
    for (size_t i = 0; i < area->count; i++) {
        probe_must(rig, rig->driver.handle_release(area->handle[i]), "cuMemRelease");
    }
    probe_must(rig, rig->driver.va_free(area->base, area->bytes * 2), "cuMemAddressFree");
    free(area->handle);
}

/* Bytes read and written in a nanosecond, the best of several rounds. */
static double bandwidth_run(probe_rig *rig, weir_cu_function copy, const bandwidth_area *area)
{
    weir_cu_stream stream = probe_stream(rig);
    uint64_t half = area->bytes / 2;
    uint64_t from = area->used, to = area->used + half, count = half / 16;
    void *parameters[] = {&to, &from, &count};
    double best = 0;
    for (unsigned round = 0; round < 5; round++) {
        probe_must(rig, rig->driver.stream_sync(stream), "the rounds before");
        uint64_t start = hw_now_ns();
        for (unsigned i = 0; i < 16; i++) {
            probe_must(rig,
                       rig->driver.launch(copy, BANDWIDTH_BLOCKS, 1, 1, BANDWIDTH_THREADS, 1, 1, 0,
                                          stream, parameters, NULL),
                       "a launch of hw_copy");
        }
        probe_must(rig, rig->driver.stream_sync(stream), "hw_copy");
        double rate = 16 * (double)area->bytes / (double)(hw_now_ns() - start);
        best = rate > best ? rate : best;
    }
    return best;
}

static double bandwidth_case(probe_rig *rig, weir_cu_function copy, const char *name,
                             bandwidth_area area, bool alias)
{
    uint64_t native = weir_cuda_work_stream_create(rig->work);
    if (!bandwidth_open(rig, &area, alias)) {
        hw_skip(name, "no host memory");
        return 0;
    }
    weir_cuda_work_fill(rig->work, native, area.used, area.bytes / 2, 3);
    probe_must(rig, rig->driver.context_sync(), "the fill");
    double rate = bandwidth_run(rig, copy, &area);
    weir_cuda_work_verify(rig->work, native, area.used + area.bytes / 2, area.bytes / 2, 3);
    uint64_t wrong = weir_cuda_work_errors(rig->work);
    bandwidth_close(rig, &area);
    probe_fact("bandwidth", "\"memory\":\"%s\",\"gb_per_s\":%.0f,\"wrong_words\":%" PRIu64, name,
               rate, wrong);
    return wrong == 0 ? rate : 0;
}

void probe_bandwidth(probe_rig *rig)
{
    const uint64_t bytes = (rig->quick ? 512 : 4096) * HW_MIB;
    weir_cu_module module = NULL;
    weir_cu_function copy = NULL;
    weir_cu_result result = rig->driver.module_load(&module, bandwidth_kernel);
    if (result == WEIR_CU_OK) {
        result = rig->driver.module_function(&copy, module, "hw_copy");
    }
    if (result != WEIR_CU_OK) {
        hw_skip("bandwidth", "the driver does not take the kernel: %s", probe_error(rig, result));
        return;
    }
    bandwidth_area area = {.bytes = bytes, .piece = bytes};
    double one = bandwidth_case(rig, copy, "one handle", area, false);
    area.piece = 128 * HW_MIB;
    double large = bandwidth_case(rig, copy, "handles of 128 MiB", area, false);
    area.piece = PROBE_PIECE;
    double small = bandwidth_case(rig, copy, "handles of 2 MiB", area, false);
    double alias = bandwidth_case(rig, copy, "shuffled aliases of handles of 2 MiB", area, true);
    hw_result("scattered handles cost a kernel nothing",
              one > 0 && large >= BANDWIDTH_SHARE * one && small >= BANDWIDTH_SHARE * one &&
                  alias >= BANDWIDTH_SHARE * one,
              "%.0f GB/s over one, %.0f over 128 MiB, %.0f over 2 MiB, %.0f over shuffled aliases",
              one, large, small, alias);
    rig->driver.module_unload(module);
}
