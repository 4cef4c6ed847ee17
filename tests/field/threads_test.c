/* SPDX-License-Identifier: MIT */
/*
 * Field reports that need threads: locks and callbacks, shared limits, host state. Numbers of
 * operations are a part of those reported, so that a run under a thread sanitizer ends soon.
 * README.md of this folder lists all reports.
 */
#include "rig.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#define CREW_MAX 16u

typedef struct crew crew;

typedef struct hand {
    crew *of;
    unsigned index;
    uint32_t random;
    pthread_t thread;
} hand;

/* Threads that work on one pool. `wrong` counts what must not happen: an assertion can only end a
 * test on its own thread. */
struct crew {
    rig r;
    void (*work)(hand *self);
    pthread_mutex_t mutex;
    atomic_uint wrong, ready, go, stop;
    atomic_uint allowed, refused;
    hand hands[CREW_MAX];
    weir_domain domain[CREW_MAX];
    uint64_t bytes;
};

static void crew_open(crew *c, weir_sim_config device, weir_config config)
{
    memset(c, 0, sizeof(*c));
    device.locked = true;
    rig_open(&c->r, device, config);
    (void)pthread_mutex_init(&c->mutex, NULL);
}

static void *crew_start(void *self)
{
    hand *h = (hand *)self;
    h->of->work(h);
    return NULL;
}

static void crew_run(crew *c, unsigned count, void (*work)(hand *self))
{
    c->work = work;
    for (unsigned i = 0; i < count; i++) {
        hand *h = &c->hands[i];
        h->of = c;
        h->index = i;
        h->random = i * 7919 + 1;
        cr_assert_eq(pthread_create(&h->thread, NULL, crew_start, h), 0);
    }
    for (unsigned i = 0; i < count; i++) (void)pthread_join(c->hands[i].thread, NULL);
}

static void crew_close(crew *c)
{
    cr_expect_eq(atomic_load(&c->wrong), 0, "%u things went wrong", atomic_load(&c->wrong));
    (void)pthread_mutex_destroy(&c->mutex);
    rig_close(&c->r);
}

static void hand_must(hand *h, bool good)
{
    if (!good) atomic_fetch_add(&h->of->wrong, 1);
}

/* Random blocks of up to `most` bytes on the hand's stream, written with a tag of the hand's own and
 * read back before the free: a second owner of a byte would show. */
static void hand_churn(hand *h, unsigned ops, unsigned stream, uint64_t most, uint64_t align)
{
    enum { SLOTS = 16 };
    rig *r = &h->of->r;
    weir_addr addr[SLOTS] = {0};
    uint64_t bytes[SLOTS];
    for (unsigned i = 0; i < ops; i++) {
        unsigned slot = rig_random(&h->random) % SLOTS;
        uint64_t tag = h->index * 1000 + slot;
        if (addr[slot] != 0) {
            hand_must(h, weir_sim_read(r->sim, r->native[stream], addr[slot], bytes[slot], tag));
            hand_must(h, weir_free(r->pool, addr[slot], r->stream[stream]) == WEIR_OK);
            addr[slot] = 0;
            continue;
        }
        weir_request request = rig_request(r, stream, 1 + rig_random(&h->random) % most);
        request.align = align;
        bytes[slot] = request.bytes;
        weir_status status = weir_alloc(r->pool, &request, &addr[slot]);
        hand_must(h, status == WEIR_OK || status == WEIR_NO_MEMORY);
        if (status != WEIR_OK) continue;
        hand_must(h, align == 0 || addr[slot] % align == 0);
        hand_must(h, weir_sim_write(r->sim, r->native[stream], addr[slot], bytes[slot], tag));
    }
    for (unsigned slot = 0; slot < SLOTS; slot++)
        if (addr[slot] != 0)
            hand_must(h, weir_free(r->pool, addr[slot], r->stream[stream]) == WEIR_OK);
}

/* One thread held the allocator's lock and wanted the interpreter's, another the other way round. The
 * observer takes a lock of the user's; a thread that holds that lock allocates and frees. Both go on,
 * as the observer runs unlocked (pytorch/pytorch#97833, #159352). */
static void pt21_observe(void *self, const weir_record *record)
{
    crew *c = (crew *)self;
    (void)record;
    (void)pthread_mutex_lock(&c->mutex);
    (void)pthread_mutex_unlock(&c->mutex);
}

static void pt21_work(hand *h)
{
    crew *c = h->of;
    for (unsigned i = 0; i < 500; i++) {
        weir_addr addr = 0;
        hand_must(h, rig_try(&c->r, h->index, MIB, &addr) == WEIR_OK);
        hand_must(h, weir_free(c->r.pool, addr, 0) == WEIR_OK);
        if (h->index == 0) { /* with the user's lock held, into the pool's statistics and walks */
            (void)pthread_mutex_lock(&c->mutex);
            (void)rig_walk(&c->r);
            (void)rig_stats(&c->r);
            hand_must(h, weir_check(c->r.pool, NULL) == WEIR_OK);
            (void)pthread_mutex_unlock(&c->mutex);
        }
    }
}

Test(field_threads, pt_21_an_observer_may_take_a_lock_held_around_the_pool, .timeout = 60)
{
    static crew c;
    crew_open(&c, (weir_sim_config){0}, (weir_config){0});
    weir_observer_set(c.r.pool, pt21_observe, &c);
    crew_run(&c, 2, pt21_work);
    weir_observer_set(c.r.pool, NULL, NULL);
    crew_close(&c);
}

/* A lock that should keep releases out of collectives was never taken. The observer hears of each
 * unmap before it is made and may wait there: while one thread is in its section, a trim on another
 * gives nothing back (pytorch/pytorch#50925). */
static void pt23_observe(void *self, const weir_record *record)
{
    crew *c = (crew *)self;
    if (record->what != WEIR_WILL_UNMAP) return;
    atomic_store(&c->ready, 1);
    (void)pthread_mutex_lock(&c->mutex);
    (void)pthread_mutex_unlock(&c->mutex);
}

static void pt23_work(hand *h)
{
    hand_must(h, weir_trim(h->of->r.pool, 0, WEIR_FOREVER, NULL) == WEIR_OK);
}

Test(field_threads, pt_23_an_observer_can_hold_back_releases, .timeout = 60)
{
    static crew c;
    crew_open(&c, (weir_sim_config){0}, (weir_config){0});
    weir_observer_set(c.r.pool, pt23_observe, &c);
    rig_free(&c.r, rig_alloc(&c.r, 0, 64 * MIB), 0);
    uint64_t held = rig_totals(&c.r).held_bytes;
    (void)pthread_mutex_lock(&c.mutex); /* the section begins */
    hand *h = &c.hands[0];
    h->of = &c;
    c.work = pt23_work;
    cr_assert_eq(pthread_create(&h->thread, NULL, crew_start, h), 0);
    while (atomic_load(&c.ready) == 0) (void)sched_yield();
    rig_free(&c.r, rig_alloc(&c.r, 0, MIB), 0); /* the pool itself is not held up */
    weir_sim_totals totals = rig_totals(&c.r);
    cr_expect_eq(totals.count[WEIR_SIM_unmap], 0);
    cr_expect_eq(totals.count[WEIR_SIM_handle_release], 0);
    cr_expect_geq(totals.held_bytes, held);
    (void)pthread_mutex_unlock(&c.mutex); /* and ends */
    (void)pthread_join(h->thread, NULL);
    cr_expect_gt(rig_count(&c.r, WEIR_SIM_handle_release), 0);
    weir_observer_set(c.r.pool, NULL, NULL);
    crew_close(&c);
}

/* While one thread routed its allocations to a private pool, another's landed there too. Where memory
 * comes from is named in each request: there is nothing to leak from thread to thread
 * (pytorch/pytorch#152861, #153356). */
static void pt24_work(hand *h)
{
    crew *c = h->of;
    for (unsigned i = 0; i < 1000; i++) {
        weir_addr addr = 0;
        weir_block block;
        weir_request request = rig_request(&c->r, h->index, MIB + i % 7 * 4096);
        request.domain = c->domain[h->index];
        hand_must(h, weir_alloc(c->r.pool, &request, &addr) == WEIR_OK);
        hand_must(h, weir_block_find(c->r.pool, addr, &block) == WEIR_OK);
        hand_must(h, block.domain == c->domain[h->index]);
        hand_must(h, weir_free(c->r.pool, addr, 0) == WEIR_OK);
    }
}

Test(field_threads, pt_24_each_thread_gets_the_domain_it_names, .timeout = 60)
{
    static crew c;
    crew_open(&c, (weir_sim_config){0}, (weir_config){0});
    EXPECT_OK(weir_domain_create(c.r.pool, &c.domain[0]));
    EXPECT_OK(weir_domain_create(c.r.pool, &c.domain[1])); /* the third thread names none */
    crew_run(&c, 3, pt24_work);
    crew_close(&c);
}

/* Four threads that shared a pool and a stream crashed it (rapidsai/rmm#735). */
static void rm04_work(hand *h)
{
    hand_churn(h, 100000, 0, 10000, 0);
}

Test(field_threads, rm_04_four_threads_share_one_stream, .timeout = 120)
{
    static crew c;
    crew_open(&c, (weir_sim_config){0}, (weir_config){.limit_bytes = GIB});
    crew_run(&c, 4, rm04_work);
    crew_close(&c);
}

/* One thread allocated and another freed, and the small blocks piled up in the arena of a thread,
 * until a large request found no room. There are no arenas of threads: all of it joins
 * (rapidsai/rmm#845). */
enum { RM13_BLOCKS = 20000, RM13_RING = 1024 };
static _Atomic weir_addr rm13_ring[RM13_RING];

static void rm13_work(hand *h)
{
    rig *r = &h->of->r;
    for (unsigned i = 0; i < RM13_BLOCKS; i++) {
        _Atomic weir_addr *place = &rm13_ring[i % RM13_RING];
        weir_addr addr = 0;
        if (h->index == 0) {
            while (atomic_load(place) != 0) (void)sched_yield();
            hand_must(h, rig_try(r, 0, 64 * KIB, &addr) == WEIR_OK);
            atomic_store(place, addr);
        } else {
            while ((addr = atomic_load(place)) == 0) (void)sched_yield();
            hand_must(h, weir_free(r->pool, addr, r->stream[1]) == WEIR_OK);
            atomic_store(place, 0);
        }
    }
}

Test(field_threads, rm_13_blocks_freed_by_another_thread_join_again, .timeout = 120)
{
    static crew c;
    crew_open(&c, (weir_sim_config){0}, (weir_config){.limit_bytes = 256 * MIB});
    crew_run(&c, 2, rm13_work);
    rig_free(&c.r, rig_alloc(&c.r, 0, 128 * MIB), 0);
    cr_expect_leq(rig_stats(&c.r).reserved.peak, 256 * MIB);
    crew_close(&c);
}

/* Aligned blocks from several threads, freed by others, ended in 'double free' at times. Here they
 * change hands; a second free of the same address is a status
 * (oneapi-src/unified-memory-framework#1492). */
static _Atomic weir_addr um03_box[64];

static void um03_work(hand *h)
{
    rig *r = &h->of->r;
    for (unsigned i = 0; i < 10000; i++) {
        weir_addr addr = 0;
        weir_request request =
            rig_request(r, h->index % RIG_STREAMS, 1 + rig_random(&h->random) % 9000);
        request.align = UINT64_C(1) << rig_random(&h->random) % 16;
        hand_must(h, weir_alloc(r->pool, &request, &addr) == WEIR_OK);
        hand_must(h, addr % request.align == 0);
        addr = atomic_exchange(&um03_box[rig_random(&h->random) % 64], addr);
        if (addr != 0) hand_must(h, weir_free(r->pool, addr, request.stream) == WEIR_OK);
    }
}

Test(field_threads, um_03_blocks_change_hands_and_a_double_free_is_told, .timeout = 120)
{
    static crew c;
    crew_open(&c, (weir_sim_config){0}, (weir_config){0});
    crew_run(&c, 4, um03_work);
    for (unsigned i = 0; i < 64; i++) {
        weir_addr addr = atomic_exchange(&um03_box[i], 0);
        if (addr == 0) continue;
        EXPECT_OK(weir_free(c.r.pool, addr, 0));
        EXPECT_STATUS(weir_free(c.r.pool, addr, 0), WEIR_NOT_FOUND);
    }
    crew_close(&c);
}

/* The owner of a pointer was looked up while other threads changed the tables
 * (oneapi-src/unified-memory-framework#1233). */
static void um11_work(hand *h)
{
    crew *c = h->of;
    if (h->index < 15) {
        hand_churn(h, 600, h->index % RIG_STREAMS, 5 * MIB, 0);
        atomic_fetch_add(&c->stop, 1);
        return;
    }
    while (atomic_load(&c->stop) < 15) {
        weir_block block;
        weir_addr at = c->bytes + (uint64_t)rig_random(&h->random) * 64;
        weir_status status = weir_block_find(c->r.pool, at, &block);
        hand_must(h,
                  status == WEIR_NOT_FOUND || (status == WEIR_OK && block.live &&
                                               block.addr <= at && at < block.addr + block.bytes));
    }
}

Test(field_threads, um_11_lookups_run_beside_allocations, .timeout = 120)
{
    static crew c;
    crew_open(&c, (weir_sim_config){0}, (weir_config){.limit_bytes = 2 * GIB});
    c.bytes = rig_alloc(&c.r, 0, MIB); /* somewhere in the arena */
    crew_run(&c, 16, um11_work);
    rig_free(&c.r, c.bytes, 0);
    crew_close(&c);
}

/* Compaction beside allocations and queries crashed. One thread trims, one walks and reads figures
 * that must be in order, four allocate (VulkanMemoryAllocator#313, #331; and for the figures
 * NVIDIA/dcgm-exporter#136). */
static void sa08_look(hand *h)
{
    crew *c = h->of;
    rig_sums sums = rig_walk(&c->r);
    weir_stats stats = rig_stats(&c->r);
    hand_must(h, sums.requested <= sums.live);
    hand_must(h, sums.pending <= sums.free_mapped);
    hand_must(h, stats.requested.current <= stats.allocated.current);
    hand_must(h, stats.allocated.current <= stats.reserved.current);
    hand_must(h, stats.reserved.current <= stats.limit_bytes);
    hand_must(h, stats.allocs - stats.frees == stats.blocks.current);
    hand_must(h, weir_check(c->r.pool, NULL) == WEIR_OK);
}

static void sa08_work(hand *h)
{
    crew *c = h->of;
    if (h->index >= 2) {
        hand_churn(h, 1500, h->index % RIG_STREAMS, 3 * MIB, 0);
        atomic_fetch_add(&c->stop, 1);
        return;
    }
    while (atomic_load(&c->stop) < 4)
        if (h->index == 0) hand_must(h, weir_trim(c->r.pool, 0, 0, NULL) == WEIR_OK);
        else sa08_look(h);
}

Test(field_threads, sa_08_and_mx_01_trims_and_walks_run_beside_allocations, .timeout = 120)
{
    static crew c;
    crew_open(&c, (weir_sim_config){0}, (weir_config){.limit_bytes = 512 * MIB});
    crew_run(&c, 6, sa08_work);
    crew_close(&c);
}

/* Figures went below zero, as they changed outside the lock. Eight threads take and free the same
 * sizes; a ninth reads (tensorflow/tensorflow#59176). */
static void fw08_work(hand *h)
{
    crew *c = h->of;
    if (h->index < 8) {
        for (unsigned i = 0; i < 5000; i++) {
            weir_addr addr = 0;
            hand_must(h, rig_try(&c->r, h->index % RIG_STREAMS, 4096, &addr) == WEIR_OK);
            hand_must(h, weir_free(c->r.pool, addr, 0) == WEIR_OK);
        }
        atomic_fetch_add(&c->stop, 1);
        return;
    }
    while (atomic_load(&c->stop) < 8) {
        weir_stats stats = rig_stats(&c->r);
        hand_must(h, stats.allocated.current <= 8 * 4096);
        hand_must(h, stats.allocated.current <= stats.allocated.peak);
        hand_must(h, stats.reserved.current <= stats.limit_bytes);
    }
}

Test(field_threads, fw_08_figures_are_right_at_any_time, .timeout = 120)
{
    static crew c;
    crew_open(&c, (weir_sim_config){0}, (weir_config){.limit_bytes = 64 * MIB});
    crew_run(&c, 9, fw08_work);
    cr_expect_geq(rig_stats(&c.r).allocated.peak, 4096);
    crew_close(&c);
}

/* Two requests both passed the check of the limit: 600 and 600 MB under 1024. The check and the
 * charge are one step, so in each round exactly as many succeed as fit (HAMi-core#273; and
 * JuliaGPU/CUDA.jl#1670, #2040 for four threads of 300 MiB under 1 GiB). */
static void sh09_work(hand *h)
{
    crew *c = h->of;
    weir_addr addr = 0;
    atomic_fetch_add(&c->ready, 1);
    while (atomic_load(&c->go) == 0) (void)sched_yield();
    weir_status status = rig_try(&c->r, h->index, c->bytes, &addr);
    if (status == WEIR_OK) atomic_fetch_add(&c->allowed, 1);
    else if (status == WEIR_NO_MEMORY) atomic_fetch_add(&c->refused, 1);
    else hand_must(h, false);
    atomic_fetch_sub(&c->ready, 1);
    while (atomic_load(&c->ready) != 0)
        (void)sched_yield(); /* nobody frees before all have asked */
    if (addr != 0) hand_must(h, weir_free(c->r.pool, addr, 0) == WEIR_OK);
}

static void sh09_rounds(unsigned threads, uint64_t bytes, unsigned fit)
{
    static crew c;
    crew_open(&c, (weir_sim_config){0}, (weir_config){.limit_bytes = GIB});
    c.bytes = bytes;
    c.work = sh09_work;
    for (unsigned round = 0; round < 100; round++) {
        atomic_store(&c.go, 0);
        atomic_store(&c.allowed, 0);
        atomic_store(&c.refused, 0);
        for (unsigned i = 0; i < threads; i++) {
            c.hands[i].of = &c;
            c.hands[i].index = i;
            cr_assert_eq(pthread_create(&c.hands[i].thread, NULL, crew_start, &c.hands[i]), 0);
        }
        while (atomic_load(&c.ready) != threads) (void)sched_yield();
        atomic_store(&c.go, 1);
        for (unsigned i = 0; i < threads; i++) (void)pthread_join(c.hands[i].thread, NULL);
        cr_expect_eq(atomic_load(&c.allowed), fit, "round %u", round);
        cr_expect_eq(atomic_load(&c.refused), threads - fit, "round %u", round);
        if (round % 2 == 0) EXPECT_OK(weir_trim(c.r.pool, 0, WEIR_FOREVER, NULL));
    }
    crew_close(&c);
}

Test(field_threads, sh_09_two_requests_that_do_not_fit_together_do_not_both_pass, .timeout = 120)
{
    sh09_rounds(2, 600 * MIB, 1);
}

Test(field_threads, fw_17_a_limit_holds_for_four_threads_at_once, .timeout = 120)
{
    sh09_rounds(4, 300 * MIB, 3);
}
