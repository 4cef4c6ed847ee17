/* SPDX-License-Identifier: MIT */
/* What all conformance tests share; see conformance.h. */
#include "conformance.h"

#include <string.h>

#define CONFORMANCE_DEVICES_MAX 16u

struct criterion_test_params weir_conformance_params(void)
{
    static size_t indices[CONFORMANCE_DEVICES_MAX];
    size_t count = 0;
    while (count < CONFORMANCE_DEVICES_MAX && weir_conformance_devices[count]) {
        indices[count] = count;
        count++;
    }
    return cr_make_param_array(size_t, indices, count);
}

conformance_rig weir_conformance_open(size_t index)
{
    conformance_rig rig;
    memset(&rig, 0, sizeof(rig));
    rig.device = weir_conformance_devices[index];
    rig.self = rig.device->create();
    if (!rig.self) {
        cr_skip_test("%s: no such device on this machine", rig.device->name);
    }
    rig.ops = rig.device->ops(rig.self);
    rig.info.size = sizeof(rig.info);
    ASSERT_OK(rig.ops->describe(rig.self, &rig.info));
    rig.granule = rig.info.granule_bytes;
    return rig;
}

void weir_conformance_close(conformance_rig *rig)
{
    const weir_conformance_device *device = rig->device;
    device->sync(rig->self);
    cr_expect_eq(device->errors(rig->self), 0, "%s: %llu errors", device->name,
                 (unsigned long long)device->errors(rig->self));
    const char *left = device->balance(rig->self);
    cr_expect_null(left, "%s: %s", device->name, left ? left : "");
    device->destroy(rig->self);
}

/* ------------------------------------------------------------------------------------ memory -- */

conformance_memory weir_conformance_take(const conformance_rig *rig, uint64_t bytes)
{
    conformance_memory memory = {0, bytes, 0};
    if (!rig->ops->va_reserve) {
        ASSERT_OK(rig->ops->segment_alloc(rig->self, bytes, &memory.addr));
        return memory;
    }
    ASSERT_OK(rig->ops->va_reserve(rig->self, bytes, &memory.addr));
    ASSERT_OK(rig->ops->handle_create(rig->self, bytes, &memory.handle));
    ASSERT_OK(rig->ops->map(rig->self, memory.addr, bytes, memory.handle));
    ASSERT_OK(rig->ops->set_access(rig->self, memory.addr, bytes));
    return memory;
}

void weir_conformance_drop(const conformance_rig *rig, conformance_memory memory)
{
    if (!rig->ops->va_reserve) {
        EXPECT_OK(rig->ops->segment_free(rig->self, memory.addr, memory.bytes));
        return;
    }
    EXPECT_OK(rig->ops->unmap(rig->self, memory.addr, memory.bytes));
    EXPECT_OK(rig->ops->handle_release(rig->self, memory.handle, memory.bytes));
    EXPECT_OK(rig->ops->va_free(rig->self, memory.addr, memory.bytes));
}

/* ------------------------------------------------------------------------------------- order -- */

weir_event weir_conformance_record(const conformance_rig *rig, uint64_t stream)
{
    weir_event event = 0;
    ASSERT_OK(rig->ops->event_create(rig->self, &event));
    ASSERT_OK(rig->ops->event_record(rig->self, event, stream));
    return event;
}

void weir_conformance_order(const conformance_rig *rig, uint64_t from, uint64_t to)
{
    weir_event event = weir_conformance_record(rig, from);
    ASSERT_OK(rig->ops->stream_wait(rig->self, to, event));
    rig->ops->event_destroy(rig->self, event);
}

bool weir_conformance_passed(const conformance_rig *rig, weir_event event)
{
    bool passed = false;
    ASSERT_OK(rig->ops->event_query(rig->self, event, &passed));
    return passed;
}
