/* SPDX-License-Identifier: MIT */
/* slivers: see slivers.h. */
#include "slivers.h"

/* What is freed behind a sliver: some handles hold one of them, some two. */
static uint64_t sliver_rest(unsigned i)
{
    return i % 3 == 0 ? 7 * SLIVER : 3 * SLIVER;
}

void weir_slivers_open(slivers *of, rig_options options)
{
    weir_addr rest[SLIVERS_MAX];
    options.streams = 2;
    options.sim.granule_bytes = SLIVER;
    if (options.sim.memory_bytes == 0) options.sim.memory_bytes = GIB;
    options.pool.limit_bytes = SLIVERS_LIMIT;
    of->rig = weir_rig_open(&options);
    weir_stream stream = of->rig->stream[0];
    for (of->count = 0; of->count < SLIVERS_MAX; of->count++) {
        unsigned i = of->count;
        if (weir_rig_stats(of->rig).allocated.current > SLIVERS_LIMIT / 100 * 98) break;
        ASSERT_OK(weir_alloc_on(of->rig->pool, stream, SLIVER, &of->keep[i]));
        ASSERT_OK(weir_alloc_on(of->rig->pool, stream, sliver_rest(i), &rest[i]));
        weir_rig_write(of->rig, 0, of->keep[i], SLIVER, 1000 + i);
    }
    for (unsigned i = 0; i < of->count; i++) weir_rig_free(of->rig, 0, rest[i]);
}

void weir_slivers_verify(slivers *of)
{
    weir_rig_check(of->rig);
    for (unsigned i = 0; i < of->count; i++)
        weir_rig_read(of->rig, 0, of->keep[i], SLIVER, 1000 + i);
}

static void slivers_free(slivers *of)
{
    weir_slivers_verify(of);
    for (unsigned i = 0; i < of->count; i++) weir_rig_free(of->rig, 0, of->keep[i]);
}

void weir_slivers_close(slivers *of)
{
    slivers_free(of);
    weir_rig_close(of->rig);
}

void weir_slivers_close_loose(slivers *of)
{
    slivers_free(of);
    weir_rig_close_loose(of->rig);
}
