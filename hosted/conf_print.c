/* SPDX-License-Identifier: MIT */
/*
 * The settings in force as one line: backend and source always, the rest where it is not the
 * default.
 *
 * Invariant: weir_conf_parse, over fresh defaults, reads the line back to the same settings.
 * Cost:      O(length of the line).
 */
#include "conf_parts.h"

#include <inttypes.h>
#include <stdio.h>

#define ENTRIES 16

struct print {
    char *text;
    size_t bytes;
    size_t length; /* of the whole line, whether it fitted or not */
};

static void print_text(struct print *print, const char *text)
{
    for (; *text != '\0'; text++, print->length++) {
        if (print->length + 1 < print->bytes) {
            print->text[print->length] = *text;
            print->text[print->length + 1] = '\0';
        }
    }
}

static void print_pair(struct print *print, const char *key, const char *value)
{
    print_text(print, print->length == 0 ? "" : ",");
    print_text(print, key);
    print_text(print, ":");
    print_text(print, value);
}

static void print_size(struct print *print, const char *key, const weir_conf_bytes *size,
                       uint64_t unit_bytes, bool set)
{
    char text[WEIR_CONF_WORD_BYTES];
    if (set) {
        weir_conf_format_bytes(size, unit_bytes, text);
        print_pair(print, key, text);
    }
}

static void print_permille(struct print *print, const char *key, uint32_t permille)
{
    char text[WEIR_CONF_WORD_BYTES];
    if (permille != 0) {
        weir_conf_format_permille(permille, text);
        print_pair(print, key, text);
    }
}

static void print_count(struct print *print, const char *key, uint64_t count)
{
    char text[WEIR_CONF_WORD_BYTES];
    if (count != 0) {
        snprintf(text, sizeof text, "%" PRIu64, count);
        print_pair(print, key, text);
    }
}

static void print_false(struct print *print, const char *key, bool off)
{
    if (off) {
        print_pair(print, key, "false");
    }
}

/* The first entry also fills what lies below it, and what is not listed is 0: so the list starts at
 * the last of the leading equal entries and leaves zeros out. */
static void print_roundup(struct print *print, const uint32_t steps[ENTRIES])
{
    char text[WEIR_CONF_WORD_BYTES];
    unsigned first = 0;
    while (first + 1 < ENTRIES && steps[first + 1] == steps[0]) {
        first++;
    }
    if (first + 1 == ENTRIES) {
        print_count(print, "roundup_power2_divisions", steps[0]);
        return;
    }
    print_pair(print, "roundup_power2_divisions", "");
    for (unsigned i = first; i < ENTRIES; i++) {
        if (i == first || steps[i] != 0) {
            snprintf(text, sizeof text, "%s%u:%" PRIu32, i == first ? "[" : ",", 1u << i, steps[i]);
            print_text(print, text);
        }
    }
    print_text(print, "]");
}

static void print_sizes(struct print *print, const weir_conf *conf)
{
    const weir_conf_bytes *limit = &conf->limit;
    print_size(print, "limit_mb", limit, WEIR_CONF_MIB, limit->bytes != 0 || limit->permille != 0);
    print_size(print, "initial_pool_size_mb", &conf->initial, WEIR_CONF_MIB,
               conf->initial.bytes != 0 || conf->initial.permille != 0);
    print_size(print, "max_split_size_mb", &conf->max_split, WEIR_CONF_MIB,
               conf->max_split.bytes != 0 || conf->max_split.permille != 0);
    print_size(print, "growth_mb", &conf->growth, WEIR_CONF_MIB, conf->growth.bytes != 0);
    print_size(print, "small_kb", &conf->small, WEIR_CONF_KIB, conf->small.bytes != 0);
    print_size(print, "release_threshold_mb", &conf->release_threshold, WEIR_CONF_MIB,
               conf->release_threshold_set);
}

size_t weir_conf_print(const weir_conf *conf, char *text, size_t bytes)
{
    struct print print = {text, bytes, 0};
    if (bytes > 0) {
        text[0] = '\0';
    }
    print_pair(&print, "backend", weir_conf_backend_names[conf->backend]);
    print_pair(&print, "source", weir_conf_source_names[conf->source]);
    print_sizes(&print, conf);
    print_permille(&print, "garbage_collection_threshold", conf->pool.gc_permille);
    print_permille(&print, "move_above", conf->pool.move_above_permille);
    print_roundup(&print, conf->pool.roundup_divisions);
    print_false(&print, "expandable_segments", conf->pool.no_growth);
    print_false(&print, "moves", conf->pool.no_moves);
    print_false(&print, "rescue", conf->pool.no_rescue);
    print_false(&print, "stream_reuse", conf->pool.no_stream_reuse);
    print_count(&print, "wait_us", conf->pool.wait_us == WEIR_FOREVER ? 0 : conf->pool.wait_us);
    print_count(&print, "unit_bytes", conf->pool.unit_bytes);
    print_count(&print, "max_blocks", conf->pool.max_blocks);
    return print.length;
}
