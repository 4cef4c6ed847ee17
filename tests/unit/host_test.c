/* SPDX-License-Identifier: MIT */
/* What the host device does beyond the contract that every backend keeps (tests/conformance). */
#define _POSIX_C_SOURCE 200809L
#include "host.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#define GRANULE (UINT64_C(64) << 10)
#define ASSERT_OK(call) cr_assert_eq((call), WEIR_OK, "%s", #call)

static weir_host *host_test_open(bool no_virtual)
{
    weir_host *host = weir_host_create(&(weir_host_config){.memory_bytes = 64 * GRANULE,
                                                           .granule_bytes = GRANULE,
                                                           .va_bytes = 256 * GRANULE,
                                                           .no_virtual = no_virtual});
    cr_assert_not_null(host);
    return host;
}

Test(host, a_config_without_sense_makes_none)
{
    cr_expect_null(weir_host_create(&(weir_host_config){.granule_bytes = 4096}));
    cr_expect_null(weir_host_create(&(weir_host_config){.granule_bytes = 3 * GRANULE}));
    weir_host_destroy(NULL);
}

Test(host, verify_counts_the_words_that_differ)
{
    weir_addr addr = 0;
    weir_host *host = host_test_open(true);
    uint64_t stream = weir_host_stream_create(host);
    ASSERT_OK(weir_host_ops(host)->segment_alloc(host, GRANULE, &addr));
    cr_assert(weir_host_fill(host, stream, addr, 1003, 5));
    cr_assert(weir_host_verify(host, stream, addr, 1003, 5));
    weir_host_sync(host, stream);
    cr_expect_eq(weir_host_errors(host), 0);
    cr_assert(weir_host_verify(host, stream, addr, 1003, 6));
    weir_host_sync(host, 0);
    cr_expect_eq(weir_host_errors(host), 126, "125 words and the rest of one");
    ((unsigned char *)(uintptr_t)addr)[1002] ^= 1;
    cr_assert(weir_host_verify(host, stream, addr, 1003, 5));
    weir_host_sync(host, stream);
    cr_expect_eq(weir_host_errors(host), 127);
    weir_host_destroy(host);
}

Test(host, a_pattern_knows_its_place)
{
    weir_addr addr = 0;
    weir_host *host = host_test_open(true);
    uint64_t stream = weir_host_stream_create(host);
    ASSERT_OK(weir_host_ops(host)->segment_alloc(host, GRANULE, &addr));
    cr_assert(weir_host_fill(host, stream, addr, GRANULE, 5));
    cr_assert(weir_host_verify(host, stream, addr + 4096, 4096, 5));
    weir_host_sync(host, stream);
    cr_expect_eq(weir_host_errors(host), 512, "moved data must not look right");
    weir_host_destroy(host);
}

Test(host, work_on_no_stream_is_refused)
{
    weir_host *host = host_test_open(true);
    cr_expect_not(weir_host_sleep(host, 1, 0));
    uint64_t stream = weir_host_stream_create(host);
    cr_expect(weir_host_sleep(host, stream, 0));
    cr_expect_neq(weir_host_stream_unique(host, stream), 0);
    weir_host_stream_destroy(host, stream);
    cr_expect_not(weir_host_sleep(host, stream, 0));
    cr_expect_eq(weir_host_stream_unique(host, stream), 0);
    cr_expect_eq(weir_host_stream_create(host), stream);
    weir_host_destroy(host);
}

Test(host, mistakes_are_invalid_and_change_nothing)
{
    weir_addr base = 0;
    weir_handle handle = 0;
    weir_event event = 0;
    bool passed = false;
    weir_host *host = host_test_open(false);
    const weir_device_ops *ops = weir_host_ops(host);
    ASSERT_OK(ops->va_reserve(host, 4 * GRANULE, &base));
    ASSERT_OK(ops->handle_create(host, 2 * GRANULE, &handle));
    ASSERT_OK(ops->event_create(host, &event));
    cr_expect_eq(ops->map(host, base, GRANULE, handle), WEIR_INVALID);
    cr_expect_eq(ops->map(host, base + 3 * GRANULE, 2 * GRANULE, handle), WEIR_INVALID);
    ASSERT_OK(ops->map(host, base, 2 * GRANULE, handle));
    cr_expect_eq(ops->map(host, base + GRANULE, 2 * GRANULE, handle), WEIR_INVALID);
    cr_expect_eq(ops->set_access(host, base, 3 * GRANULE), WEIR_INVALID);
    cr_expect_eq(ops->unmap(host, base, GRANULE), WEIR_INVALID);
    cr_expect_eq(ops->handle_release(host, handle, 2 * GRANULE), WEIR_INVALID);
    cr_expect_eq(ops->va_free(host, base, 4 * GRANULE), WEIR_INVALID);
    cr_expect_eq(ops->event_query(host, event, &passed), WEIR_INVALID);
    cr_expect_eq(ops->event_record(host, event, 9), WEIR_INVALID);
    cr_expect_eq(ops->copy(host, base, base + 2 * GRANULE, GRANULE), WEIR_INVALID);
    cr_expect_eq(ops->resume(host), WEIR_INVALID);
    const char *left = weir_host_balance(host);
    cr_assert_not_null(left);
    cr_expect_not_null(strstr(left, "1 handles, 1 address ranges, 1 mappings"), "%s", left);
    weir_host_destroy(host);
}

/* ------------------------------------------------------------------------------------- quiet -- */

typedef struct host_test_intruder {
    weir_host *host;
    uint64_t stream;
    weir_addr addr;
} host_test_intruder;

static void *host_test_intrude(void *self)
{
    host_test_intruder *intruder = (host_test_intruder *)self;
    weir_host_fill(intruder->host, intruder->stream, intruder->addr, GRANULE, 2);
    return NULL;
}

/* A thread that queues work while the device is quiet is held up until resume. */
Test(host, a_quiet_device_lets_no_work_in)
{
    pthread_t thread;
    weir_addr addr = 0;
    weir_host *host = host_test_open(true);
    const weir_device_ops *ops = weir_host_ops(host);
    uint64_t stream = weir_host_stream_create(host);
    uint64_t clock = weir_host_stream_create(host);
    ASSERT_OK(ops->segment_alloc(host, GRANULE, &addr));
    memset((void *)(uintptr_t)addr, 0x11, GRANULE);
    host_test_intruder intruder = {host, stream, addr};
    cr_assert(weir_host_sleep(host, clock, 10000));
    ASSERT_OK(ops->quiesce(host, WEIR_FOREVER));
    cr_assert_eq(pthread_create(&thread, NULL, host_test_intrude, &intruder), 0);
    struct timespec pause = {0, 50000000};
    nanosleep(&pause, NULL);
    for (uint64_t i = 0; i < GRANULE; i++) {
        cr_assert_eq(((unsigned char *)(uintptr_t)addr)[i], 0x11);
    }
    ASSERT_OK(ops->resume(host));
    pthread_join(thread, NULL);
    cr_assert(weir_host_verify(host, stream, addr, GRANULE, 2));
    weir_host_sync(host, 0);
    cr_expect_eq(weir_host_errors(host), 0);
    weir_host_destroy(host);
}

static void host_test_count(void *self)
{
    ++*(unsigned *)self;
}

Test(host, calls_run_in_the_order_of_their_stream)
{
    unsigned count = 0;
    weir_host *host = host_test_open(true);
    uint64_t stream = weir_host_stream_create(host);
    for (unsigned i = 0; i < 100; i++) {
        cr_assert(weir_host_call(host, stream, host_test_count, &count));
    }
    weir_host_sync(host, stream);
    cr_expect_eq(count, 100);
    weir_host_destroy(host);
}
