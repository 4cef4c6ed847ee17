// SPDX-License-Identifier: MIT
/* flat: see flat.h. */
#include "flat.h"

static weir_status flat_describe(void *self, weir_device_info *info)
{
	struct weir_flat *flat = self;

	info->granule_bytes = flat->granule;
	info->memory_bytes = flat->bytes;
	return WEIR_OK;
}

static weir_status flat_va_reserve(void *self, u64 bytes, weir_addr *base)
{
	*base = WEIR_FLAT_BASE;
	return WEIR_OK;
}

static weir_status flat_range(void *self, weir_addr addr, u64 bytes)
{
	return WEIR_OK;
}

static weir_status flat_create(void *self, u64 bytes, weir_handle *handle)
{
	struct weir_flat *flat = self;

	if (atomic64_add_return(bytes, &flat->held) > flat->bytes) {
		atomic64_sub(bytes, &flat->held);
		return WEIR_NO_MEMORY;
	}
	*handle = 1;
	return WEIR_OK;
}

static weir_status flat_release(void *self, weir_handle handle, u64 bytes)
{
	struct weir_flat *flat = self;

	atomic64_sub(bytes, &flat->held);
	return WEIR_OK;
}

static weir_status flat_map(void *self, weir_addr addr, u64 bytes, weir_handle handle)
{
	return WEIR_OK;
}

static weir_status flat_event(void *self, weir_event *event)
{
	*event = 1;
	return WEIR_OK;
}

static void flat_event_end(void *self, weir_event event)
{
}

static weir_status flat_record(void *self, weir_event event, u64 stream)
{
	return WEIR_OK;
}

static weir_status flat_query(void *self, weir_event event, bool *passed)
{
	*passed = true;
	return WEIR_OK;
}

static weir_status flat_wait(void *self, u64 stream, weir_event event)
{
	return WEIR_OK;
}

const weir_device_ops weir_flat_ops = {
	.size = sizeof(weir_flat_ops),
	.describe = flat_describe,
	.va_reserve = flat_va_reserve,
	.va_free = flat_range,
	.handle_create = flat_create,
	.handle_release = flat_release,
	.map = flat_map,
	.set_access = flat_range,
	.unmap = flat_range,
	.event_create = flat_event,
	.event_destroy = flat_event_end,
	.event_record = flat_record,
	.event_query = flat_query,
	.stream_wait = flat_wait,
};
