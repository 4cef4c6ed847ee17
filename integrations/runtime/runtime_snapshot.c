/* SPDX-License-Identifier: MIT */
/*
 * The snapshot: what the pools hold and the history, in the shape of PyTorch's memory snapshots.
 *
 * A segment is a stretch of mapped memory of one domain without a gap; its blocks add up to its size,
 * and every live block lies in one, which the viewer insists on. The pool is copied block by block under its
 * own lock, what is written comes later; a block that is freed in between is shown as it was.
 */
#include "runtime_doc.h"
#include "runtime_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef struct snapshot_blocks {
    weir_block *block;
    size_t count, room;
    bool short_of_memory;
} snapshot_blocks;

static bool snapshot_keep(void *self, const weir_block *block)
{
    snapshot_blocks *blocks = (snapshot_blocks *)self;
    if (!block->mapped) {
        return true;
    }
    if (blocks->count == blocks->room) {
        size_t room = blocks->room == 0 ? 1024 : 2 * blocks->room;
        weir_block *more = (weir_block *)realloc(blocks->block, room * sizeof(*more));
        blocks->short_of_memory = !more;
        if (!more) {
            return false;
        }
        blocks->block = more;
        blocks->room = room;
    }
    blocks->block[blocks->count++] = *block;
    return true;
}

static void snapshot_frames(weir_rt_doc *doc, uint32_t stack)
{
    const weir_rt_frame *frame;
    size_t frames = weir_rt_stack_frames(stack, &frame);
    weir_rt_doc_key(doc, "frames");
    weir_rt_doc_list(doc);
    for (size_t i = 0; i < frames; i++) {
        weir_rt_doc_dict(doc);
        weir_rt_doc_key(doc, "filename");
        weir_rt_doc_text(doc, frame[i].file);
        weir_rt_doc_key(doc, "line");
        weir_rt_doc_number(doc, (uint64_t)(frame[i].line > 0 ? frame[i].line : 0));
        weir_rt_doc_key(doc, "name");
        weir_rt_doc_text(doc, frame[i].name);
        weir_rt_doc_close(doc);
    }
    weir_rt_doc_close(doc);
}

static void snapshot_field(weir_rt_doc *doc, const char *key, uint64_t number)
{
    weir_rt_doc_key(doc, key);
    weir_rt_doc_number(doc, number);
}

static uint32_t snapshot_stack(weir_rt_device *on, uint64_t addr)
{
    pthread_mutex_lock(&on->lock);
    const weir_rt_block *known = weir_rt_books_find(&on->books, addr);
    uint32_t stack = known ? known->stack : 0;
    pthread_mutex_unlock(&on->lock);
    return stack;
}

static void snapshot_block(weir_rt_doc *doc, weir_rt_device *on, const weir_block *block)
{
    const char *state = block->live      ? "active_allocated"
                        : block->pending ? "active_pending_free"
                                         : "inactive";
    weir_rt_doc_dict(doc);
    snapshot_field(doc, "address", block->addr);
    snapshot_field(doc, "size", block->bytes);
    snapshot_field(doc, "requested_size", block->live ? block->requested_bytes : block->bytes);
    weir_rt_doc_key(doc, "state");
    weir_rt_doc_text(doc, state);
    snapshot_frames(doc, block->live ? snapshot_stack(on, block->addr) : 0);
    weir_rt_doc_close(doc);
}

static bool snapshot_goes_on(const weir_block *block, const weir_block *next)
{
    return block->addr + block->bytes == next->addr && block->domain == next->domain &&
           block->small == next->small;
}

/* The end of the stretch that begins with block `from`. */
static size_t snapshot_stretch(const snapshot_blocks *blocks, size_t from)
{
    size_t to = from + 1;
    while (to < blocks->count && snapshot_goes_on(&blocks->block[to - 1], &blocks->block[to])) {
        to++;
    }
    return to;
}

static void snapshot_segment(weir_rt_doc *doc, weir_rt_device *on, const weir_block *block,
                             size_t count)
{
    uint64_t total = 0, allocated = 0, active = 0, requested = 0, hi, lo;
    for (size_t i = 0; i < count; i++) {
        total += block[i].bytes;
        allocated += block[i].live ? block[i].bytes : 0;
        active += block[i].live || block[i].pending ? block[i].bytes : 0;
        requested += block[i].live ? block[i].requested_bytes : 0;
    }
    weir_rt_doc_dict(doc);
    snapshot_field(doc, "device", (uint64_t)on->ordinal);
    snapshot_field(doc, "address", block[0].addr);
    snapshot_field(doc, "total_size", total);
    snapshot_field(doc, "allocated_size", allocated);
    snapshot_field(doc, "active_size", active);
    snapshot_field(doc, "requested_size", requested);
    snapshot_field(doc, "stream", 0);
    weir_rt_doc_key(doc, "segment_type");
    weir_rt_doc_text(doc, block[0].small ? "small" : "large");
    weir_rt_doc_key(doc, "segment_pool_id");
    weir_rt_pool_of(on, block[0].domain, &hi, &lo);
    weir_rt_doc_pair(doc, hi, lo);
    weir_rt_doc_key(doc, "is_expandable");
    weir_rt_doc_bool(doc, true);
    snapshot_frames(doc, 0);
    weir_rt_doc_key(doc, "blocks");
    weir_rt_doc_list(doc);
    for (size_t i = 0; i < count; i++) {
        snapshot_block(doc, on, &block[i]);
    }
    weir_rt_doc_close(doc);
    weir_rt_doc_close(doc);
}

/* False where host memory is short. */
static bool snapshot_device(weir_rt_doc *doc, weir_rt_device *on)
{
    snapshot_blocks blocks = {.block = NULL};
    weir_walk_blocks(weir_rt_core(on), snapshot_keep, &blocks);
    for (size_t from = 0; from < blocks.count;) {
        size_t to = snapshot_stretch(&blocks, from);
        snapshot_segment(doc, on, &blocks.block[from], to - from);
        from = to;
    }
    free(blocks.block);
    return !blocks.short_of_memory;
}

/* ------------------------------------------------------------------------------------ history -- */

typedef struct snapshot_trace {
    weir_rt_doc *doc;
    int device;
} snapshot_trace;

static void snapshot_entry(weir_rt_doc *doc, const weir_rt_event *event, const char *action)
{
    const weir_rt_frame *text;
    weir_rt_doc_dict(doc);
    weir_rt_doc_key(doc, "action");
    weir_rt_doc_text(doc, action);
    snapshot_field(doc, event->act == WEIR_RT_OOM ? "device_free" : "addr", event->addr);
    snapshot_field(doc, "size", event->bytes);
    snapshot_field(doc, "stream", event->stream);
    snapshot_field(doc, "time_us", event->time_us);
    weir_rt_doc_key(doc, "pool_id");
    weir_rt_doc_pair(doc, event->hi, event->lo);
    snapshot_frames(doc, event->stack);
    if (weir_rt_stack_frames(event->metadata, &text) == 1) {
        weir_rt_doc_key(doc, "user_metadata");
        weir_rt_doc_text(doc, text->file);
    }
    weir_rt_doc_close(doc);
}

static void snapshot_event(void *self, const weir_rt_event *event)
{
    static const char *const action[] = {"alloc", "free_requested", "oom", "segment_map",
                                         "segment_unmap"};
    const snapshot_trace *to = (const snapshot_trace *)self;
    if (event->device != to->device) {
        return;
    }
    snapshot_entry(to->doc, event, action[event->act]);
    if (event->act == WEIR_RT_FREE) {
        snapshot_entry(to->doc, event, "free_completed");
    }
}

static void snapshot_traces(weir_rt_doc *doc)
{
    int last = -1;
    for (weir_rt_device *on = weir_rt_first(-1); on; on = weir_rt_next(-1, on)) {
        last = on->ordinal;
    }
    weir_rt_doc_key(doc, "device_traces");
    weir_rt_doc_list(doc);
    for (int device = 0; device <= last; device++) {
        snapshot_trace to = {doc, device};
        weir_rt_doc_list(doc);
        weir_rt_history_walk(snapshot_event, &to);
        weir_rt_doc_close(doc);
    }
    weir_rt_doc_close(doc);
}

static void snapshot_settings(weir_rt_doc *doc)
{
    char conf[4096];
    (void)weir_runtime_conf(conf, sizeof(conf));
    weir_rt_doc_key(doc, "allocator_settings");
    weir_rt_doc_dict(doc);
    weir_rt_doc_key(doc, "PYTORCH_CUDA_ALLOC_CONF");
    weir_rt_doc_text(doc, conf);
    weir_rt_doc_key(doc, "expandable_segments");
    weir_rt_doc_bool(doc, true);
    weir_rt_doc_close(doc);
}

static bool snapshot_write(weir_rt_doc *doc)
{
    bool whole = true;
    weir_rt_doc_dict(doc);
    weir_rt_doc_key(doc, "schema");
    weir_rt_doc_text(doc, "weir.snapshot/1");
    weir_rt_doc_key(doc, "segments");
    weir_rt_doc_list(doc);
    for (weir_rt_device *on = weir_rt_first(-1); on; on = weir_rt_next(-1, on)) {
        whole = snapshot_device(doc, on) && whole;
    }
    weir_rt_doc_close(doc);
    snapshot_traces(doc);
    snapshot_settings(doc);
    weir_rt_doc_key(doc, "external_annotations");
    weir_rt_doc_list(doc);
    weir_rt_doc_close(doc);
    weir_rt_doc_close(doc);
    weir_rt_doc_end(doc);
    return whole;
}

int weir_runtime_snapshot(const char *path)
{
    weir_rt_doc doc;
    if (!weir_rt_alive()) {
        return WEIR_LOST;
    }
    size_t length = path ? strlen(path) : 0;
    FILE *file = length != 0 ? fopen(path, "wbe") : NULL;
    if (!file) {
        return weir_rt_fail(WEIR_DEVICE, "%s: %s", length != 0 ? path : "no name",
                            length != 0 ? strerror(errno) : "a snapshot needs a file");
    }
    weir_rt_doc_begin(&doc, file, length > 5 && strcmp(path + length - 5, ".json") == 0);
    bool enough = snapshot_write(&doc);
    bool whole = ferror(file) == 0;
    whole = fclose(file) == 0 && whole;
    if (!enough) {
        return weir_rt_fail(WEIR_NO_METADATA, "not enough host memory for the snapshot");
    }
    return whole ? WEIR_OK : weir_rt_fail(WEIR_DEVICE, "%s: it was not written in full", path);
}
