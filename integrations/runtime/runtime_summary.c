/* SPDX-License-Identifier: MIT */
/* The memory summary: PyTorch's table, 75 columns, with Weir's figures. */
#include "runtime_internal.h"
#include "runtime_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SUMMARY_WIDTH 75

static void summary_rule(weir_rt_text *text, char with)
{
    char line[SUMMARY_WIDTH + 1];
    memset(line, with, SUMMARY_WIDTH);
    line[SUMMARY_WIDTH] = '\0';
    weir_rt_text_add(text, "|%s|\n", line);
}

static void summary_centre(weir_rt_text *text, const char *what)
{
    int length = (int)strlen(what);
    int left = (SUMMARY_WIDTH - length) / 2;
    weir_rt_text_add(text, "|%*s%s%*s|\n", left, "", what, SUMMARY_WIDTH - length - left, "");
}

/* A number in at most six digits, in the unit that suits `scale`, which all of a row share. */
static void summary_cell(weir_rt_text *text, uint64_t value, uint64_t scale, bool bytes)
{
    static const char *const byte_unit[] = {"B  ", "KiB", "MiB", "GiB", "TiB", "PiB"};
    static const char *const count_unit[] = {"   ", "K  ", "M  ", "G  ", "T  ", "P  "};
    const uint64_t step = bytes ? 1024 : 1000;
    unsigned unit = 0;
    while (unit < 5 && scale >= 750 * step) {
        scale /= step;
        value /= step;
        unit++;
    }
    weir_rt_text_add(text, " %6" PRIu64 " %s |", value, (bytes ? byte_unit : count_unit)[unit]);
}

static void summary_row(weir_rt_text *text, const char *name, const weir_runtime_amount *amount,
                        bool bytes)
{
    uint64_t scale = amount->added > amount->peak ? amount->peak : amount->added;
    scale = scale > amount->current ? scale : amount->current;
    weir_rt_text_add(text, "| %-21s |", name);
    summary_cell(text, amount->current, scale, bytes);
    summary_cell(text, amount->peak, amount->peak, bytes);
    summary_cell(text, amount->added, amount->added, bytes);
    summary_cell(text, amount->taken, amount->taken, bytes);
    weir_rt_text_add(text, "\n");
}

static void summary_rows(weir_rt_text *text, const char *name, const weir_runtime_amount amount[3],
                         bool bytes)
{
    summary_row(text, name, &amount[0], bytes);
    summary_row(text, "      from large pool", &amount[1], bytes);
    summary_row(text, "      from small pool", &amount[2], bytes);
    summary_rule(text, '-');
}

static void summary_head(weir_rt_text *text, int device, const weir_runtime_stats *stats)
{
    char line[96];
    summary_rule(text, '=');
    snprintf(line, sizeof(line), "Weir CUDA memory summary, device ID %d", device);
    summary_centre(text, line);
    summary_rule(text, '-');
    snprintf(line, sizeof(line),
             "CUDA OOMs: %" PRIu64 "     |     retries: %" PRIu64 "     |     limit: ", stats->ooms,
             stats->retries);
    size_t used = strlen(line);
    weir_rt_text limit = {.at = line, .room = sizeof(line), .used = used};
    if (stats->limit == WEIR_NO_LIMIT) {
        weir_rt_text_add(&limit, "none");
    } else {
        weir_rt_text_bytes(&limit, stats->limit);
    }
    summary_centre(text, line);
    summary_rule(text, '=');
    weir_rt_text_add(text, "|        Metric         | Cur Usage  | Peak Usage | Tot Alloc  |"
                           " Tot Freed  |\n");
    summary_rule(text, '-');
}

size_t weir_runtime_summary(int device, char *at, size_t room)
{
    weir_rt_text text = {.at = at, .room = room};
    weir_runtime_stats stats = {.size = sizeof(stats)};
    if (!weir_rt_device_peek(device) || weir_runtime_stats_read(device, &stats) != WEIR_OK) {
        weir_rt_text_add(&text, "Weir has no pool on device %d\n", device);
        return text.used;
    }
    summary_head(&text, device, &stats);
    summary_rows(&text, "Allocated memory", stats.allocated, true);
    summary_rows(&text, "Requested memory", stats.requested, true);
    summary_rows(&text, "Allocations", stats.allocations, false);
    summary_row(&text, "GPU reserved memory", &stats.reserved, true);
    summary_row(&text, "GPU reserved segments", &stats.segments, false);
    summary_row(&text, "Freed, still in use", &stats.pending, true);
    summary_rule(&text, '=');
    weir_rt_text_add(&text,
                     "%" PRIu64 " handles moved, %" PRIu64 " rescues, %" PRIu64
                     " waits of the host, %" PRIu64 " waits between streams\n",
                     stats.moves, stats.rescues, stats.host_waits, stats.stream_waits);
    return text.used;
}
