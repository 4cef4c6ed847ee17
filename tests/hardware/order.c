/* SPDX-License-Identifier: MIT */
/*
 * Order on the device: nobody gets memory too early, and nobody waits who need not. Then the same
 * storm with events that lie, which has to be noticed.
 */
#include "hw_storm.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ORDER_SPIN_US 60000u
#define ORDER_QUICKLY_US 30000u /* half of a spin: who takes longer has waited for it */

typedef struct order_pair {
    weir_cuda *cuda;
    weir_cuda_work *work;
    weir_platform *platform;
    weir_pool *pool;
    uint64_t native[2];
    weir_stream name[2];
} order_pair;

static order_pair order_open(uint64_t limit_bytes)
{
    order_pair pair;
    weir_config config = {.size = sizeof(config), .limit_bytes = limit_bytes};
    pair.cuda = hw_device(WEIR_CONF_VMM, false);
    pair.work = hw_work(pair.cuda);
    pair.platform = weir_platform_create(true);
    config.ops = weir_cuda_ops(pair.cuda);
    config.device_self = pair.cuda;
    config.platform = pair.platform;
    hw_must(weir_pool_create(&config, &pair.pool), "a pool");
    for (unsigned i = 0; i < 2; i++) {
        weir_stream_desc desc;
        pair.native[i] = weir_cuda_work_stream_create(pair.work);
        hw_must(weir_cuda_stream(pair.cuda, (void *)(uintptr_t)pair.native[i], &desc), "a stream");
        desc.outlives = true;
        hw_must(weir_stream_attach(pair.pool, &desc, &pair.name[i]), "a stream's name");
    }
    return pair;
}

static void order_close(order_pair *pair)
{
    hw_must(weir_pool_destroy(pair->pool), "the pool's end");
    weir_cuda_work_destroy(pair->work);
    weir_cuda_destroy(pair->cuda);
    weir_platform_destroy(pair->platform);
}

/* Stream 0 spins, then checks its block, which is freed by then; stream 1 wants as much. With
 * `spare` it has a free block of its own. Returns how long it took to get one. */
static uint64_t order_hand_over(order_pair *pair, uint64_t bytes, bool spare)
{
    weir_addr first, next;
    hw_must(weir_alloc_on(pair->pool, pair->name[0], bytes, &first), "the first block");
    if (spare) {
        hw_must(weir_alloc_on(pair->pool, pair->name[1], bytes, &next), "a spare block");
        hw_must(weir_free(pair->pool, next, pair->name[1]), "its free");
    }
    weir_cuda_work_fill(pair->work, pair->native[0], first, bytes, 1);
    weir_cuda_work_spin(pair->work, pair->native[0], ORDER_SPIN_US);
    weir_cuda_work_verify(pair->work, pair->native[0], first, bytes, 1);
    hw_must(weir_free(pair->pool, first, pair->name[0]), "the first free");
    uint64_t start = hw_now_us();
    hw_must(weir_alloc_on(pair->pool, pair->name[1], bytes, &next), "the next block");
    uint64_t took = hw_now_us() - start;
    weir_cuda_work_fill(pair->work, pair->native[1], next, bytes, 2);
    weir_cuda_work_verify(pair->work, pair->native[1], next, bytes, 2);
    hw_must(weir_free(pair->pool, next, pair->name[1]), "the next free");
    return took;
}

static void order_under_a_kernel(void)
{
    order_pair pair = order_open(64 * HW_MIB);
    uint64_t took = order_hand_over(&pair, 48 * HW_MIB, false);
    uint64_t wrong = weir_cuda_work_errors(pair.work);
    weir_stats stats = hw_stats(pair.pool);
    hw_result("memory freed under a running kernel is given on behind it", wrong == 0,
              "%" PRIu64 " wrong words", wrong);
    hw_result("by a wait between the streams", stats.stream_waits > 0 && stats.host_waits == 0,
              "%" PRIu64 " stream waits, %" PRIu64 " host waits", stats.stream_waits,
              stats.host_waits);
    hw_result("and the host does not wait", took < ORDER_QUICKLY_US, "%" PRIu64 " us", took);
    order_close(&pair);
}

static void order_with_room(void)
{
    order_pair pair = order_open(1024 * HW_MIB);
    uint64_t took = order_hand_over(&pair, 48 * HW_MIB, true);
    weir_stats stats = hw_stats(pair.pool);
    uint64_t wrong = weir_cuda_work_errors(pair.work);
    hw_result("where there is other memory nobody waits",
              wrong == 0 && stats.stream_waits == 0 && took < ORDER_QUICKLY_US,
              "%" PRIu64 " wrong words, %" PRIu64 " stream waits, %" PRIu64 " us", wrong,
              stats.stream_waits, took);
    order_close(&pair);
}

static void order_say(const char *name, const storm_result *result, bool good)
{
    hw_result(name, good && result->wrong_words == 0 && result->broken == NULL,
              "%" PRIu64 " rounds, %" PRIu64 " reuses, %" PRIu64 " by another stream, %" PRIu64
              " moves, %" PRIu64 " stream waits, %" PRIu64 " refused, %" PRIu64 " wrong words%s%s",
              result->rounds, result->reuses, result->crossings, result->moves,
              result->stream_waits, result->refused, result->wrong_words,
              result->broken ? ", " : "", result->broken ? result->broken : "");
}

static void order_storms(bool quick, bool least)
{
    const uint64_t many = least ? 40 : quick ? 300 : 100000;
    const char *const sources[] = {"storm on vmm", "storm on async", "storm on malloc"};
    for (int source = WEIR_CONF_VMM; source <= WEIR_CONF_MALLOC; source++) {
        storm_plan plan = {.source = (weir_conf_source)source,
                           .limit_bytes = 96 * HW_MIB,
                           .block_min = 512,
                           .block_max = 2 * HW_MIB,
                           .threads = 4,
                           .live = 12,
                           .spin_us = 200,
                           .rounds = UINT64_MAX,
                           .seed = 1,
                           .time_us = quick ? 5000000 : 60000000,
                           .crossings = many};
        bool all = source == WEIR_CONF_VMM || quick;
        plan.crossings = all ? many : many / 10;
        storm_result result = hw_storm(&plan);
        order_say(sources[source], &result, result.crossings >= plan.crossings);
    }
    storm_plan moves = {.source = WEIR_CONF_VMM,
                        .limit_bytes = 320 * HW_MIB,
                        .growth_bytes = 2 * HW_MIB,
                        .block_min = 5 * HW_MIB,
                        .block_max = 37 * HW_MIB,
                        .threads = 4,
                        .live = 4,
                        .spin_us = 100,
                        .rounds = UINT64_MAX,
                        .seed = 2,
                        .time_us = quick ? 5000000 : 90000000,
                        .moves = many};
    storm_result result = hw_storm(&moves);
    order_say("storm of moves", &result, result.moves >= many);
}

/* One storm with lying events. On malloc, where nothing is unmapped under running work. */
static int order_planted_once(uint32_t seed)
{
    storm_plan plan = {.source = WEIR_CONF_MALLOC,
                       .limit_bytes = 32 * HW_MIB,
                       .block_min = HW_MIB,
                       .block_max = 6 * HW_MIB,
                       .threads = 4,
                       .live = 3,
                       .spin_us = 400,
                       .rounds = 600,
                       .seed = seed,
                       .time_us = 10000000,
                       .planted = true};
    return hw_storm(&plan).wrong_words > 0 ? 0 : 1;
}

/* Ten seeds, each in a process of its own: memory that is freed under running work can also end the
 * context, in which case wrong words can't be counted any more and are UINT64_MAX. */
static void order_planted(const char *program, bool quick)
{
    char command[512];
    unsigned caught = 0;
    unsigned tries = quick ? 3 : 10;
    for (unsigned seed = 1; seed <= tries; seed++) {
        snprintf(command, sizeof(command), "'%s' --planted %u >/dev/null 2>&1", program, seed);
        caught += system(command) == 0;
    }
    hw_result("an early reuse planted by hand is caught", caught == tries, "%u times out of %u",
              caught, tries);
}

int main(int argc, char **argv)
{
    bool quick = hw_quick(argc, argv);
    if (argc > 1 && strcmp(argv[1], "--device") == 0) { /* whether there is one */
        weir_cuda_destroy(hw_device(WEIR_CONF_MALLOC, false));
        return 0;
    }
    if (argc > 2 && strcmp(argv[1], "--planted") == 0) {
        return order_planted_once((uint32_t)strtoul(argv[2], NULL, 10));
    }
    order_under_a_kernel();
    order_with_room();
    order_storms(quick, hw_sanitizer(argc, argv));
    if (!hw_sanitizer(argc, argv)) {
        order_planted(argv[0], quick);
    }
    return hw_end();
}
