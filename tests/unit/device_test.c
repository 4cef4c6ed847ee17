/* SPDX-License-Identifier: MIT */
/* device: which sets of calls are a device, what is counted, and a lost device is left alone. */
#include "device.h"
#include "rig.h"

#include <string.h>

static weir_device_ops device_ops(weir_sim *sim)
{
    return *weir_sim_ops(sim);
}

/* What init says of the simulator's calls after `change`. */
#define INIT_WITH(change) \
    do { \
        weir_device_ops ops = device_ops(sim); \
        change; \
        status = weir_device_init(&device, &ops, sim); \
    } while (0)

Test(device, a_whole_device_is_taken_with_its_facts)
{
    weir_device device;
    weir_sim *sim = weir_sim_create(NULL);
    weir_device_ops ops = device_ops(sim);
    ASSERT_OK(weir_device_init(&device, &ops, sim));
    cr_expect_eq(device.info.granule_bytes, RIG_GRANULE);
    cr_expect_eq(device.granule_shift, 21);
    cr_expect(weir_device_virtual(&device));
    cr_expect_eq(device.self, (void *)sim);
    weir_sim_destroy(sim);
}

Test(device, groups_are_whole_or_absent)
{
    weir_device device;
    weir_status status;
    weir_sim *sim = weir_sim_create(NULL);
    INIT_WITH(ops.va_free = NULL);
    cr_expect_eq(status, WEIR_INVALID);
    INIT_WITH(ops.unmap = NULL);
    cr_expect_eq(status, WEIR_INVALID);
    INIT_WITH(ops.copy = NULL);
    cr_expect_eq(status, WEIR_INVALID);
    INIT_WITH(ops.segment_free = sim == NULL ? NULL : ops.unmap);
    cr_expect_eq(status, WEIR_INVALID);
    INIT_WITH((ops.quiesce = NULL, ops.copy = NULL, ops.resume = NULL));
    cr_expect_eq(status, WEIR_OK);
    INIT_WITH((ops.event_wait = NULL, ops.memory_info = NULL, ops.native_error = NULL));
    cr_expect_eq(status, WEIR_OK);
    weir_sim_destroy(sim);
}

Test(device, order_and_some_memory_are_required)
{
    weir_device device;
    weir_status status;
    weir_sim *sim = weir_sim_create(NULL);
    INIT_WITH(ops.event_query = NULL);
    cr_expect_eq(status, WEIR_UNSUPPORTED);
    INIT_WITH((ops.event_create = NULL, ops.event_destroy = NULL, ops.event_record = NULL,
               ops.event_query = NULL, ops.stream_wait = NULL));
    cr_expect_eq(status, WEIR_UNSUPPORTED);
    INIT_WITH(ops.describe = NULL);
    cr_expect_eq(status, WEIR_UNSUPPORTED);
    INIT_WITH((ops.va_reserve = NULL, ops.va_free = NULL, ops.handle_create = NULL,
               ops.handle_release = NULL, ops.map = NULL, ops.set_access = NULL, ops.unmap = NULL));
    cr_expect_eq(status, WEIR_UNSUPPORTED);
    INIT_WITH(ops.size = 0);
    cr_expect_eq(status, WEIR_INVALID);
    cr_expect_eq(weir_device_init(&device, NULL, sim), WEIR_INVALID);
    weir_sim_destroy(sim);
}

Test(device, calls_beyond_the_size_of_the_ops_are_absent)
{
    weir_device device;
    weir_status status;
    weir_sim *sim = weir_sim_create(NULL);
    INIT_WITH(ops.size = offsetof(weir_device_ops, event_wait));
    cr_expect_eq(status, WEIR_OK);
    cr_expect(device.ops.event_wait == NULL);
    cr_expect(device.ops.native_error == NULL);
    weir_sim_destroy(sim);
}

static uint64_t device_granule;

static weir_status device_describe_any(void *self, weir_device_info *info)
{
    (void)self;
    info->granule_bytes = device_granule;
    return WEIR_OK;
}

Test(device, a_granule_out_of_range_is_refused)
{
    static const uint64_t bad[] = {0, 1, 2048, 4097, 6000, UINT64_C(1) << 41, UINT64_MAX};
    weir_device device;
    weir_status status;
    weir_sim *sim = weir_sim_create(NULL);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        device_granule = bad[i];
        INIT_WITH(ops.describe = device_describe_any);
        cr_expect_eq(status, WEIR_UNSUPPORTED, "%llu", (unsigned long long)bad[i]);
    }
    device_granule = 4096;
    INIT_WITH(ops.describe = device_describe_any);
    cr_expect_eq(status, WEIR_OK);
    weir_sim_fail(sim, WEIR_SIM_describe, 1, false, WEIR_DEVICE);
    INIT_WITH((void)0);
    cr_expect_eq(status, WEIR_DEVICE);
    weir_sim_destroy(sim);
}

static weir_status device_create_one(weir_device *device, weir_handle *handle)
{
    return WEIR_DEVICE_CALL(device, &device->calls, creates,
                            handle_create(device->self, RIG_GRANULE, handle));
}

Test(device, calls_are_counted_and_their_code_kept)
{
    weir_device device;
    weir_handle handle;
    weir_sim *sim = weir_sim_create(NULL);
    weir_device_ops ops = device_ops(sim);
    ASSERT_OK(weir_device_init(&device, &ops, sim));
    weir_sim_fail(sim, WEIR_SIM_handle_create, 2, false, WEIR_DEVICE);
    EXPECT_STATUS(device_create_one(&device, &handle), WEIR_OK);
    cr_expect_eq(device.calls.native_error, 0);
    EXPECT_STATUS(device_create_one(&device, &handle), WEIR_DEVICE);
    cr_expect_neq(device.calls.native_error, 0);
    cr_expect_eq(device.calls.creates, 2);
    cr_expect_not(device.calls.lost);
    weir_sim_destroy(sim);
}

Test(device, once_lost_always_lost_and_left_alone)
{
    weir_device device;
    weir_event event;
    weir_sim *sim = weir_sim_create(NULL);
    weir_device_ops ops = device_ops(sim);
    weir_sim_totals totals;
    ASSERT_OK(weir_device_init(&device, &ops, sim));
    weir_sim_fail(sim, WEIR_SIM_event_create, 1, false, WEIR_LOST);
    for (uint32_t i = 0; i < 3; i++)
        EXPECT_STATUS(
            WEIR_DEVICE_CALL(&device, &device.calls, event_creates, event_create(sim, &event)),
            WEIR_LOST);
    weir_sim_totals_read(sim, &totals);
    cr_expect_eq(totals.count[WEIR_SIM_event_create], 1);
    cr_expect_eq(device.calls.event_creates, 1);
    weir_sim_destroy(sim);
}
