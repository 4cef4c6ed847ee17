/* SPDX-License-Identifier: MIT */
/* The leak report: live blocks, those of one stack together, or of one size and stream where no
 * stack was recorded; the largest sums first. */
#include "runtime_internal.h"
#include "runtime_text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct leak_group {
    weir_rt_block first; /* the oldest */
    uint64_t count, bytes;
} leak_group;

static int leaks_compare(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

/* Blocks of one group side by side, the oldest first. */
static int leaks_by_group(const void *a, const void *b)
{
    const weir_rt_block *one = (const weir_rt_block *)a, *other = (const weir_rt_block *)b;
    int order = leaks_compare(one->stack, other->stack);
    if (order == 0 && one->stack == 0) {
        order = leaks_compare(one->requested, other->requested);
        order = order != 0 ? order : leaks_compare(one->stream, other->stream);
    }
    return order != 0 ? order : leaks_compare(one->born_us, other->born_us);
}

static bool leaks_same(const weir_rt_block *one, const weir_rt_block *other)
{
    return one->stack == other->stack && (one->stack != 0 || (one->requested == other->requested &&
                                                              one->stream == other->stream));
}

static int leaks_by_bytes(const void *a, const void *b)
{
    const leak_group *one = (const leak_group *)a, *other = (const leak_group *)b;
    int order = leaks_compare(other->bytes, one->bytes);
    return order != 0 ? order : leaks_compare(one->first.addr, other->first.addr);
}

/* A copy of all live blocks; NULL and 0 if there is none, or no host memory for it. */
static weir_rt_block *leaks_copy(weir_rt_device *on, size_t *count)
{
    weir_rt_block *copy = NULL;
    *count = 0;
    pthread_mutex_lock(&on->lock);
    if (on->books.used != 0) {
        copy = (weir_rt_block *)malloc(on->books.used * sizeof(*copy));
    }
    for (size_t i = 0; copy && i < on->books.room; i++) {
        if (on->books.slot[i].addr != 0) {
            copy[(*count)++] = on->books.slot[i];
        }
    }
    pthread_mutex_unlock(&on->lock);
    return copy;
}

static leak_group *leaks_group(weir_rt_block *block, size_t count, size_t *groups)
{
    leak_group *group = (leak_group *)calloc(count, sizeof(*group));
    *groups = 0;
    qsort(block, count, sizeof(*block), leaks_by_group);
    for (size_t i = 0; group && i < count; i++) {
        if (*groups == 0 || !leaks_same(&group[*groups - 1].first, &block[i])) {
            group[(*groups)++].first = block[i];
        }
        group[*groups - 1].count++;
        group[*groups - 1].bytes += block[i].requested;
    }
    if (group) {
        qsort(group, *groups, sizeof(*group), leaks_by_bytes);
    }
    return group;
}

static void leaks_print(weir_rt_text *text, const leak_group *group, uint64_t now_us)
{
    const weir_rt_frame *frame;
    size_t frames = weir_rt_stack_frames(group->first.stack, &frame);
    uint64_t age_us = now_us > group->first.born_us ? now_us - group->first.born_us : 0;
    weir_rt_text_add(text, "  ");
    weir_rt_text_bytes(text, group->bytes);
    weir_rt_text_add(text, " in %" PRIu64 " block%s", group->count, group->count == 1 ? "" : "s");
    if (group->count > 1 && group->first.stack == 0) {
        weir_rt_text_add(text, " of ");
        weir_rt_text_bytes(text, group->first.requested);
    }
    weir_rt_text_add(text, ", the oldest 0x%" PRIx64 ", %.1f s old, stream 0x%" PRIx64 "\n",
                     group->first.addr, (double)age_us / 1e6, group->first.stream);
    for (size_t i = 0; i < frames; i++) {
        weir_rt_text_add(text, "      %s (%s", frame[i].name, frame[i].file);
        if (frame[i].line > 0) {
            weir_rt_text_add(text, ":%d", frame[i].line);
        }
        weir_rt_text_add(text, ")\n");
    }
}

size_t weir_runtime_leaks(int device, unsigned top, char *at, size_t room)
{
    weir_rt_text text = {.at = at, .room = room};
    weir_rt_device *on = weir_rt_device_peek(device);
    size_t count = 0, groups = 0;
    if (!on) {
        weir_rt_text_add(&text, "Weir has no pool on device %d\n", device);
        return text.used;
    }
    weir_rt_block *block = leaks_copy(on, &count);
    leak_group *group = count != 0 ? leaks_group(block, count, &groups) : NULL;
    uint64_t bytes = 0;
    for (size_t i = 0; i < groups; i++) {
        bytes += group[i].bytes;
    }
    weir_rt_text_add(&text, "device %d: %zu live block%s", device, count, count == 1 ? "" : "s");
    if (count != 0) {
        weir_rt_text_add(&text, ", ");
        weir_rt_text_bytes(&text, bytes);
    }
    weir_rt_text_add(&text, "\n");
    size_t shown = top != 0 && top < groups ? top : groups;
    for (size_t i = 0; i < shown; i++) {
        leaks_print(&text, &group[i], weir_rt_now_us());
    }
    if (shown < groups) {
        weir_rt_text_add(&text, "  and %zu more groups\n", groups - shown);
    }
    free(group);
    free(block);
    return text.used;
}
