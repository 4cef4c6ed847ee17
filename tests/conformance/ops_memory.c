/* SPDX-License-Identifier: MIT */
/* The memory calls of a device, without a pool: docs/backend.md, "Virtual memory", "Segments". */
#include "conformance.h"

#include <stddef.h>
#include <string.h>

#define SKIP_WITHOUT_VIRTUAL(rig) \
    if (!(rig)->ops->va_reserve) { \
        return; /* the group is absent as a whole: see ops_memory/groups_are_whole */ \
    }

/* A stream on which everything of one test happens. */
static uint64_t ops_memory_stream(const conformance_rig *rig)
{
    uint64_t stream = rig->device->stream_create(rig->self);
    cr_assert_neq(rig->device->stream_unique(rig->self, stream), 0);
    return stream;
}

static weir_handle ops_memory_handle(const conformance_rig *rig, uint64_t bytes)
{
    weir_handle handle = 0;
    ASSERT_OK(rig->ops->handle_create(rig->self, bytes, &handle));
    return handle;
}

static weir_addr ops_memory_range(const conformance_rig *rig, uint64_t bytes)
{
    weir_addr base = 0;
    ASSERT_OK(rig->ops->va_reserve(rig->self, bytes, &base));
    cr_assert_neq(base, 0);
    cr_assert_eq(base % rig->granule, 0);
    return base;
}

static void ops_memory_map(const conformance_rig *rig, weir_addr addr, uint64_t bytes,
                           weir_handle handle)
{
    ASSERT_OK(rig->ops->map(rig->self, addr, bytes, handle));
    ASSERT_OK(rig->ops->set_access(rig->self, addr, bytes));
}

CONFORMANCE(ops_memory, groups_are_whole)
{
    const weir_device_ops *ops = rig->ops;
    bool some = ops->va_reserve != NULL;
    cr_expect_eq(some, ops->va_free != NULL);
    cr_expect_eq(some, ops->handle_create != NULL);
    cr_expect_eq(some, ops->handle_release != NULL);
    cr_expect_eq(some, ops->map != NULL);
    cr_expect_eq(some, ops->set_access != NULL);
    cr_expect_eq(some, ops->unmap != NULL);
    cr_expect_eq(ops->segment_alloc != NULL, ops->segment_free != NULL);
    cr_expect(some || ops->segment_alloc != NULL);
    cr_expect_eq(ops->quiesce != NULL, ops->copy != NULL);
    cr_expect_eq(ops->quiesce != NULL, ops->resume != NULL);
    cr_expect(ops->event_create && ops->event_destroy && ops->event_record && ops->event_query &&
              ops->stream_wait);
    cr_expect_gt(ops->size, 0);
}

CONFORMANCE(ops_memory, describe_tells_the_granule)
{
    cr_expect_geq(rig->granule, 4096);
    cr_expect_eq(rig->granule & (rig->granule - 1), 0);
    cr_expect_eq(rig->info.memory_bytes % rig->granule, 0);
}

CONFORMANCE(ops_memory, describe_writes_no_more_than_the_caller_can_take)
{
    weir_device_info info;
    memset(&info, 0xab, sizeof(info));
    info.size = offsetof(weir_device_info, memory_bytes);
    uint64_t behind = info.memory_bytes;
    ASSERT_OK(rig->ops->describe(rig->self, &info));
    cr_expect_eq(info.granule_bytes, rig->granule);
    cr_expect_eq(info.memory_bytes, behind);
}

CONFORMANCE(ops_memory, data_stays_where_it_was_written)
{
    uint64_t stream = ops_memory_stream(rig);
    conformance_memory a = weir_conformance_take(rig, 4 * rig->granule);
    conformance_memory b = weir_conformance_take(rig, 2 * rig->granule);
    cr_expect(a.addr + a.bytes <= b.addr || b.addr + b.bytes <= a.addr);
    cr_expect_eq(a.addr % rig->granule, 0);
    cr_expect_eq(b.addr % rig->granule, 0);
    rig->device->write(rig->self, stream, a.addr, a.bytes, 1);
    rig->device->write(rig->self, stream, b.addr, b.bytes, 2);
    rig->device->verify(rig->self, stream, a.addr, a.bytes, 1);
    rig->device->verify(rig->self, stream, b.addr, b.bytes, 2);
    rig->device->sync(rig->self);
    weir_conformance_drop(rig, a);
    weir_conformance_drop(rig, b);
}

CONFORMANCE(ops_memory, a_full_device_says_no_memory_and_recovers)
{
    enum { PIECES = 9 };
    uint64_t taken[PIECES];
    uint64_t piece = rig->info.memory_bytes / 8 / rig->granule * rig->granule;
    weir_status status = WEIR_OK;
    unsigned count = 0;
    if (piece == 0 || (rig->info.handle_bytes_max && piece > rig->info.handle_bytes_max)) {
        return;
    }
    while (status == WEIR_OK && count < PIECES) {
        uint64_t name = 77; /* of a handle, or the address of a segment */
        status = rig->ops->va_reserve ? rig->ops->handle_create(rig->self, piece, &name)
                                      : rig->ops->segment_alloc(rig->self, piece, &name);
        if (status == WEIR_OK) {
            taken[count++] = name;
        }
        cr_expect(status == WEIR_OK || name == 77, "a result was written on failure");
    }
    cr_assert_eq(status, WEIR_NO_MEMORY);
    cr_assert_gt(count, 0);
    for (unsigned i = 0; i < count; i++) {
        EXPECT_OK(rig->ops->va_reserve ? rig->ops->handle_release(rig->self, taken[i], piece)
                                       : rig->ops->segment_free(rig->self, taken[i], piece));
    }
    weir_conformance_drop(rig, weir_conformance_take(rig, piece));
}

CONFORMANCE(ops_memory, memory_info_follows_what_is_held)
{
    uint64_t before = 0;
    uint64_t during = 0;
    uint64_t total = 0;
    if (!rig->ops->memory_info) {
        return;
    }
    ASSERT_OK(rig->ops->memory_info(rig->self, &before, &total));
    cr_expect_leq(before, total);
    conformance_memory memory = weir_conformance_take(rig, 8 * rig->granule);
    ASSERT_OK(rig->ops->memory_info(rig->self, &during, &total));
    cr_expect_leq(during + memory.bytes, before);
    weir_conformance_drop(rig, memory);
}

CONFORMANCE(ops_memory, ranges_do_not_overlap)
{
    SKIP_WITHOUT_VIRTUAL(rig)
    uint64_t bytes = 16 * rig->granule;
    weir_addr a = ops_memory_range(rig, bytes);
    weir_addr b = ops_memory_range(rig, bytes);
    cr_expect(a + bytes <= b || b + bytes <= a);
    EXPECT_OK(rig->ops->va_free(rig->self, a, bytes));
    weir_addr c = ops_memory_range(rig, bytes);
    cr_expect(c + bytes <= b || b + bytes <= c);
    EXPECT_OK(rig->ops->va_free(rig->self, b, bytes));
    EXPECT_OK(rig->ops->va_free(rig->self, c, bytes));
}

CONFORMANCE(ops_memory, addresses_run_out_with_no_memory)
{
    SKIP_WITHOUT_VIRTUAL(rig)
    weir_addr base = 77;
    if (rig->info.va_bytes == 0) {
        return;
    }
    weir_status status = rig->ops->va_reserve(rig->self, rig->info.va_bytes + rig->granule, &base);
    cr_expect_eq(status, WEIR_NO_MEMORY);
    cr_expect_eq(base, 77, "a result was written on failure");
}

CONFORMANCE(ops_memory, a_handle_shows_the_same_bytes_at_every_address)
{
    SKIP_WITHOUT_VIRTUAL(rig)
    uint64_t bytes = 2 * rig->granule;
    uint64_t stream = ops_memory_stream(rig);
    weir_addr base = ops_memory_range(rig, 3 * bytes);
    weir_handle handle = ops_memory_handle(rig, bytes);
    ops_memory_map(rig, base, bytes, handle);
    ops_memory_map(rig, base + 2 * bytes, bytes, handle);
    rig->device->write(rig->self, stream, base, bytes, 1);
    rig->device->verify(rig->self, stream, base + 2 * bytes, bytes, 1);
    rig->device->write(rig->self, stream, base + 2 * bytes, bytes, 2);
    rig->device->verify(rig->self, stream, base, bytes, 2);
    rig->device->sync(rig->self);
    EXPECT_OK(rig->ops->unmap(rig->self, base, bytes));
    rig->device->verify(rig->self, stream, base + 2 * bytes, bytes, 2);
    rig->device->sync(rig->self);
    EXPECT_OK(rig->ops->unmap(rig->self, base + 2 * bytes, bytes));
    EXPECT_OK(rig->ops->handle_release(rig->self, handle, bytes));
    EXPECT_OK(rig->ops->va_free(rig->self, base, 3 * bytes));
}

CONFORMANCE(ops_memory, a_handle_keeps_its_bytes_while_it_is_mapped_nowhere)
{
    SKIP_WITHOUT_VIRTUAL(rig)
    uint64_t bytes = rig->granule;
    uint64_t stream = ops_memory_stream(rig);
    weir_addr base = ops_memory_range(rig, 2 * bytes);
    weir_handle handle = ops_memory_handle(rig, bytes);
    ops_memory_map(rig, base, bytes, handle);
    rig->device->write(rig->self, stream, base, bytes, 5);
    rig->device->sync(rig->self);
    EXPECT_OK(rig->ops->unmap(rig->self, base, bytes));
    ops_memory_map(rig, base + bytes, bytes, handle);
    rig->device->verify(rig->self, stream, base + bytes, bytes, 5);
    rig->device->sync(rig->self);
    EXPECT_OK(rig->ops->unmap(rig->self, base + bytes, bytes));
    EXPECT_OK(rig->ops->handle_release(rig->self, handle, bytes));
    EXPECT_OK(rig->ops->va_free(rig->self, base, 2 * bytes));
}

/* One range of handles of different sizes, made accessible and unmapped by one call each, then
 * mapped again in the other order. */
CONFORMANCE(ops_memory, one_call_covers_many_handles)
{
    SKIP_WITHOUT_VIRTUAL(rig)
    enum { HANDLES = 4 };
    weir_handle handles[HANDLES];
    uint64_t bytes = 10 * rig->granule; /* 1 + 2 + 3 + 4 */
    uint64_t stream = ops_memory_stream(rig);
    weir_addr base = ops_memory_range(rig, bytes);
    weir_addr at = base;
    for (unsigned i = 0; i < HANDLES; i++) {
        handles[i] = ops_memory_handle(rig, (i + 1) * rig->granule);
        ASSERT_OK(rig->ops->map(rig->self, at, (i + 1) * rig->granule, handles[i]));
        at += (i + 1) * rig->granule;
    }
    ASSERT_OK(rig->ops->set_access(rig->self, base, bytes));
    at = base;
    for (unsigned i = 0; i < HANDLES; i++) {
        rig->device->write(rig->self, stream, at, (i + 1) * rig->granule, i + 1);
        at += (i + 1) * rig->granule;
    }
    rig->device->sync(rig->self);
    EXPECT_OK(rig->ops->unmap(rig->self, base, bytes));
    at = base;
    for (unsigned i = HANDLES; i-- > 0;) {
        ops_memory_map(rig, at, (i + 1) * rig->granule, handles[i]);
        rig->device->verify(rig->self, stream, at, (i + 1) * rig->granule, i + 1);
        at += (i + 1) * rig->granule;
    }
    rig->device->sync(rig->self);
    EXPECT_OK(rig->ops->unmap(rig->self, base, bytes));
    for (unsigned i = 0; i < HANDLES; i++) {
        EXPECT_OK(rig->ops->handle_release(rig->self, handles[i], (i + 1) * rig->granule));
    }
    EXPECT_OK(rig->ops->va_free(rig->self, base, bytes));
}

CONFORMANCE(ops_memory, mapping_beside_running_work_does_not_wait_for_it)
{
    SKIP_WITHOUT_VIRTUAL(rig)
    uint64_t bytes = rig->granule;
    uint64_t stream = ops_memory_stream(rig);
    rig->device->busy(rig->self, stream, 500000);
    weir_event event = weir_conformance_record(rig, stream);
    weir_addr base = ops_memory_range(rig, 2 * bytes);
    weir_handle handle = ops_memory_handle(rig, bytes);
    ops_memory_map(rig, base, bytes, handle);
    EXPECT_OK(rig->ops->unmap(rig->self, base, bytes));
    cr_expect_not(weir_conformance_passed(rig, event), "a call waited for unrelated work");
    rig->device->sync(rig->self);
    EXPECT_OK(rig->ops->handle_release(rig->self, handle, bytes));
    EXPECT_OK(rig->ops->va_free(rig->self, base, 2 * bytes));
    rig->ops->event_destroy(rig->self, event);
}
