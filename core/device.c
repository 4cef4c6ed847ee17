/* SPDX-License-Identifier: MIT */
/* device: see device.h. */
#include "device.h"

weir_calls weir_device_begin(const weir_device *device)
{
    weir_calls calls;
    weir_memset(&calls, 0, sizeof(calls));
    calls.lost = device->calls.lost;
    return calls;
}

void weir_device_end(weir_device *device, const weir_calls *calls)
{
    weir_calls *all = &device->calls;
    all->va_reserves += calls->va_reserves;
    all->va_frees += calls->va_frees;
    all->creates += calls->creates;
    all->releases += calls->releases;
    all->maps += calls->maps;
    all->accesses += calls->accesses;
    all->unmaps += calls->unmaps;
    all->host_waits += calls->host_waits;
    all->lost = all->lost || calls->lost;
    if (calls->native_error != 0) all->native_error = calls->native_error;
}

weir_status weir_device_answer(const weir_device *device, weir_calls *calls, weir_status status)
{
    if (WEIR_LIKELY(status == WEIR_OK)) return status;
    if (status == WEIR_LOST) calls->lost = true;
    if (device->ops.native_error != NULL)
        calls->native_error = device->ops.native_error(device->self);
    return status;
}

/* A group of calls is there when all are, absent when none is; a mixture is an error. */
static bool group_is_whole(int present, int members)
{
    return present == 0 || present == members;
}

static weir_status device_check_groups(const weir_device_ops *ops)
{
    int memory = (ops->va_reserve != NULL) + (ops->va_free != NULL) + (ops->handle_create != NULL) +
                 (ops->handle_release != NULL) + (ops->map != NULL) + (ops->set_access != NULL) +
                 (ops->unmap != NULL);
    int segments = (ops->segment_alloc != NULL) + (ops->segment_free != NULL);
    int order = (ops->event_create != NULL) + (ops->event_destroy != NULL) +
                (ops->event_record != NULL) + (ops->event_query != NULL) +
                (ops->stream_wait != NULL);
    int rescue = (ops->quiesce != NULL) + (ops->copy != NULL) + (ops->resume != NULL);
    if (!group_is_whole(memory, 7) || !group_is_whole(segments, 2) || !group_is_whole(rescue, 3))
        return WEIR_INVALID;
    if (ops->describe == NULL || order != 5 || memory + segments == 0) return WEIR_UNSUPPORTED;
    return WEIR_OK;
}

weir_status weir_device_init(weir_device *device, const weir_device_ops *ops, void *self)
{
    weir_memset(device, 0, sizeof(*device));
    if (ops == NULL || ops->size < sizeof(ops->size)) return WEIR_INVALID;
    weir_memcpy(&device->ops, ops, (size_t)weir_min(ops->size, sizeof(*ops)));
    device->ops.size = sizeof(*ops);
    device->self = self;
    weir_status status = device_check_groups(&device->ops);
    if (status != WEIR_OK) return status;
    device->info.size = sizeof(device->info);
    status = device->ops.describe(self, &device->info);
    if (status != WEIR_OK) return status;
    uint64_t granule = device->info.granule_bytes;
    if (!weir_is_power(granule) || granule < 4096 || granule > UINT64_C(1) << 40)
        return WEIR_UNSUPPORTED;
    device->granule_shift = weir_bit_high(granule);
    return WEIR_OK;
}
