/* SPDX-License-Identifier: MIT */
/*
 * The table of keys: every name that WEIR_CONF knows, how its value is read and within what bounds.
 *
 * Invariants: names differ; the keys of weir_conf_key_index come first and in its order; no more
 *             than 64 keys, as each has a bit. docs/configuration.md has a row for each.
 * Cost:       a look-up compares with every name; a settings line is read once per process.
 */
#include "conf_parts.h"

#include <string.h>

#define COUNT_MOST (UINT64_MAX - 1)
#define MAX_SPLIT_LEAST (21 * WEIR_CONF_MIB) /* PyTorch wants more than 20 MiB */
#define SMALL_MOST WEIR_CONF_MIB             /* half a granule of 2 MiB */

#define FIELD(name) offsetof(weir_conf, name)
/* clang-format off */
#define SIZE(name, field, unit, least, rules, example) \
    {name, weir_conf_read_size, FIELD(field), unit, least, WEIR_CONF_BYTES_MOST, rules, example}
#define NOT(name, field, example) {name, weir_conf_read_not, FIELD(field), 0, 0, 1, 0, example}
#define REFUSED(name, why) {name, weir_conf_read_refused, 0, 0, 0, 0, 0, why}
/* clang-format on */

static const weir_conf_key key_table[] = {
    {"backend", weir_conf_read_backend, FIELD(backend), 0, 0, 0, 0, "auto"},
    {"source", weir_conf_read_source, FIELD(source), 0, 0, 0, 0, "vmm"},
    SIZE("limit_mb", limit, WEIR_CONF_MIB, WEIR_CONF_MIB, 0, "8192"),
    SIZE("limit", limit, 0, WEIR_CONF_MIB, 0, "8GiB"),
    {"per_process_memory_fraction", weir_conf_read_fraction, FIELD(limit), 0, 1, WEIR_CONF_PERMILLE,
     0, "0.5"},
    SIZE("initial_pool_size_mb", initial, WEIR_CONF_MIB, 0, 0, "2048"),
    SIZE("max_split_size_mb", max_split, WEIR_CONF_MIB, MAX_SPLIT_LEAST, 0, "128"),
    SIZE("growth_mb", growth, WEIR_CONF_MIB, WEIR_CONF_MIB,
         WEIR_CONF_POWER_OF_TWO | WEIR_CONF_NO_PART, "64"),
    {"small_kb", weir_conf_read_size, FIELD(small), WEIR_CONF_KIB, WEIR_CONF_KIB, SMALL_MOST,
     WEIR_CONF_NO_PART, "64"},
    {"release_threshold_mb", weir_conf_read_threshold, FIELD(release_threshold), WEIR_CONF_MIB, 0,
     WEIR_CONF_BYTES_MOST, 0, "1024"},
    {"garbage_collection_threshold", weir_conf_read_permille, FIELD(pool.gc_permille), 0, 1,
     WEIR_CONF_PERMILLE - 1, 0, "0.8"},
    {"move_above", weir_conf_read_permille, FIELD(pool.move_above_permille), 0, WEIR_CONF_PERMILLE,
     100 * WEIR_CONF_PERMILLE, 0, "1.02"},
    {"roundup_power2_divisions", weir_conf_read_roundup, FIELD(pool.roundup_divisions), 0, 0, 1024,
     WEIR_CONF_POWER_OF_TWO, "[256:1,512:2,>:4]"},
    NOT("expandable_segments", pool.no_growth, "true"),
    NOT("moves", pool.no_moves, "true"),
    NOT("rescue", pool.no_rescue, "true"),
    NOT("stream_reuse", pool.no_stream_reuse, "true"),
    {"wait_us", weir_conf_read_wait, FIELD(pool.wait_us), 0, 0, COUNT_MOST, 0, "5000"},
    {"unit_bytes", weir_conf_read_count, FIELD(pool.unit_bytes), 0, 64, 4096,
     WEIR_CONF_POWER_OF_TWO, "512"},
    {"max_blocks", weir_conf_read_blocks, FIELD(pool.max_blocks), 0, 1, UINT32_MAX, 0, "100000"},
    {"release_lock_on_cudamalloc", weir_conf_read_true, 0, 0, 0, 0, 0, "true"},
    REFUSED("max_non_split_rounding_mb", "a large block is always cut to the size asked for"),
    REFUSED("graph_capture_record_stream_reuse", "captured memory lies in a domain of its own"),
    REFUSED("throw_on_cudamalloc_oom", "a failed allocation is always reported to its caller"),
    REFUSED("pinned_use_cuda_host_register", "Weir holds no pinned host memory"),
    REFUSED("pinned_num_register_threads", "Weir holds no pinned host memory"),
    REFUSED("pinned_use_background_threads", "Weir holds no pinned host memory"),
    REFUSED("pinned_reserve_segment_size_mb", "Weir holds no pinned host memory"),
};

#define KEYS (sizeof key_table / sizeof key_table[0])

const weir_conf_key *weir_conf_key_find(const char *name, uint64_t *bit)
{
    for (size_t i = 0; i < KEYS; i++) {
        if (strcmp(key_table[i].name, name) == 0) {
            *bit = UINT64_C(1) << i;
            return &key_table[i];
        }
    }
    return NULL;
}

const char *weir_conf_key_nearest(const char *name)
{
    const weir_conf_key *best = &key_table[0];
    unsigned best_edits = weir_conf_distance(name, best->name);
    for (size_t i = 1; i < KEYS; i++) {
        unsigned edits = weir_conf_distance(name, key_table[i].name);
        if (edits < best_edits && key_table[i].read != weir_conf_read_refused) {
            best = &key_table[i];
            best_edits = edits;
        }
    }
    return best->name;
}
