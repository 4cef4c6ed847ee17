/* SPDX-License-Identifier: MIT */
/* PyTorch's hooks, each a call of the runtime. */
#include "weir_torch.h"

#include "weir_runtime.h"

static uint64_t hook_number(const void *pointer)
{
    return (uint64_t)(uintptr_t)pointer;
}

void *weir_torch_alloc(ssize_t bytes, int device, void *stream)
{
    uint64_t addr = 0;
    if (bytes <= 0) {
        return NULL; /* PyTorch asks for nothing, too, and expects no address then */
    }
    if (weir_runtime_alloc(device, (uint64_t)bytes, hook_number(stream), &addr) != 0) {
        return NULL;
    }
    return (void *)(uintptr_t)addr;
}

void weir_torch_free(void *block, ssize_t bytes, int device, void *stream)
{
    (void)bytes;
    (void)device;
    if (block) {
        (void)weir_runtime_free(hook_number(block), hook_number(stream));
    }
}

/* A pool costs memory of the context, so it is made by the first allocation, not for every device
 * that the machine has. */
void weir_torch_init(int devices)
{
    (void)devices;
}

void weir_torch_empty_cache(void)
{
    (void)weir_runtime_trim(-1, 0, NULL);
}

void weir_torch_memory_fraction(double fraction, int device)
{
    (void)weir_runtime_limit_part(device, fraction);
}

void *weir_torch_base(void *pointer, size_t *bytes)
{
    uint64_t base = hook_number(pointer), length = 0;
    if (weir_runtime_find(base, NULL, &base, &length) == 0 && bytes) {
        *bytes = (size_t)length;
    }
    return (void *)(uintptr_t)base;
}

void weir_torch_record_stream(void *pointer, void *stream)
{
    if (pointer) {
        (void)weir_runtime_use(hook_number(pointer), hook_number(stream));
    }
}

void weir_torch_begin_to_pool(int device, weir_torch_pool_id id, void *filter)
{
    (void)filter;
    (void)weir_runtime_pool_begin(device, id.first, id.second, NULL, NULL);
}

void weir_torch_end_to_pool(int device, weir_torch_pool_id id)
{
    (void)weir_runtime_pool_end(device, id.first, id.second);
}

void weir_torch_release_pool(int device, weir_torch_pool_id id)
{
    (void)weir_runtime_pool_release(device, id.first, id.second);
}
