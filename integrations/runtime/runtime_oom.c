/* SPDX-License-Identifier: MIT */
/* Out of memory, explained: who holds what, what would have fitted, and what to do. */
#include "runtime_internal.h"
#include "runtime_text.h"

#include <string.h>

static void oom_part(weir_rt_text *text, uint64_t bytes, const char *what)
{
    if (bytes != 0) {
        weir_rt_text_add(text, "; ");
        weir_rt_text_bytes(text, bytes);
        weir_rt_text_add(text, " %s", what);
    }
}

static void oom_bounds(weir_rt_text *text, const weir_oom *oom)
{
    if (oom->limit_bytes != WEIR_NO_LIMIT) {
        weir_rt_text_add(text, "the limit is ");
        weir_rt_text_bytes(text, oom->limit_bytes);
    } else {
        weir_rt_text_add(text, "there is no limit");
    }
    weir_rt_text_add(text, ", of which Weir holds ");
    weir_rt_text_bytes(text, oom->reserved_bytes);
    if (oom->device_free_bytes != 0) {
        weir_rt_text_add(text, "; the device has ");
        weir_rt_text_bytes(text, oom->device_free_bytes);
        weir_rt_text_add(text, " free");
    }
}

static uint64_t oom_less(uint64_t from, uint64_t take)
{
    return from > take ? from - take : 0;
}

/* What a request might have been: the longest free run, or whole granules of what limit and device
 * still give and of free handles that nothing live holds in place, which move or are given back. */
static uint64_t oom_fits(const weir_rt_device *on, const weir_oom *oom)
{
    weir_cuda *cuda = weir_cuda_pool_device(weir_rt_cuda(on));
    weir_device_info info = {.size = sizeof(info)};
    uint64_t room = oom_less(oom->limit_bytes, oom->reserved_bytes);
    room = room < oom->device_free_bytes ? room : oom->device_free_bytes;
    room += oom_less(oom->free_bytes, oom->stranded_bytes + oom->pinned_bytes);
    if (weir_cuda_ops(cuda)->describe(cuda, &info) == WEIR_OK) {
        room -= room % info.granule_bytes;
    }
    return room > oom->largest_free_bytes ? room : oom->largest_free_bytes;
}

static void oom_advice(weir_rt_text *text, const weir_rt_device *on, const weir_oom *oom)
{
    weir_rt_text_add(text, ". A request of up to ");
    weir_rt_text_bytes(text, oom_fits(on, oom));
    weir_rt_text_add(text, " would have fitted");
    if (oom->wait_would_help) {
        weir_rt_text_add(text, "; so would this one if it might wait for the device");
    } else if (oom->other_stream_bytes >= oom->asked_bytes) {
        weir_rt_text_add(text, "; synchronise the streams that still use freed memory");
    } else if (oom->domain_bytes >= oom->asked_bytes) {
        weir_rt_text_add(text, "; delete graphs or memory pools that are not used any more");
    }
    weir_rt_text_add(text, ".");
}

static void oom_explain(weir_rt_text *text, const weir_rt_device *on, const weir_oom *oom)
{
    weir_rt_text_add(text, "CUDA out of memory. Weir could not allocate ");
    weir_rt_text_bytes(text, oom->asked_bytes);
    weir_rt_text_add(text, " on device %d: ", on->ordinal);
    oom_bounds(text, oom);
    oom_part(text, oom->allocated_bytes, "are in live blocks");
    oom_part(text, oom->free_bytes, "are free");
    oom_part(text, oom->other_stream_bytes, "are freed but still in use by other streams");
    oom_part(text, oom->domain_bytes, "are free inside graphs' or callers' pools");
    oom_part(text, oom->stranded_bytes, "are free beside live blocks in handles that cannot move");
    oom_part(text, oom->pinned_bytes, "are free in pinned memory");
    oom_part(text, oom->quarantined_bytes, "are lost to failed device calls");
    oom_advice(text, on, oom);
}

void weir_rt_oom_sentence(weir_rt_device *on, int status, uint64_t bytes, char *at, size_t room)
{
    weir_oom oom = {.size = sizeof(oom)};
    weir_rt_text text = {.at = at, .room = room};
    bool memory = status == WEIR_NO_MEMORY || status == WEIR_WOULD_WAIT;
    if (memory && weir_oom_read(weir_rt_core(on), &oom) == WEIR_OK) {
        oom_explain(&text, on, &oom);
        return;
    }
    weir_rt_text_add(&text, "Weir could not allocate ");
    weir_rt_text_bytes(&text, bytes);
    weir_rt_text_add(&text, " on device %d: %s (%s)", on->ordinal,
                     weir_status_text((weir_status)status),
                     weir_cuda_error(weir_cuda_pool_device(weir_rt_cuda(on))));
}

size_t weir_runtime_oom(int device, char *text, size_t room)
{
    weir_oom oom = {.size = sizeof(oom)};
    weir_rt_text out = {.at = text, .room = room};
    weir_rt_device *on = weir_rt_device_peek(device);
    if (on && weir_oom_read(weir_rt_core(on), &oom) == WEIR_OK) {
        oom_explain(&out, on, &oom);
    } else {
        weir_rt_text_add(&out, "no allocation has failed on device %d", device);
    }
    return out.used;
}
