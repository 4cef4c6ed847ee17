/* SPDX-License-Identifier: MIT */
/*
 * What settings must hold together: contradictions inside one text, and what can only be seen once
 * the size of the device is known.
 *
 * Invariant: weir_conf_resolve writes the pool's fields only when all of them are good.
 * Cost:      O(1).
 */
#include "conf_parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define BIT(key) (UINT64_C(1) << (key))
#define LIMIT_KEYS \
    (BIT(WEIR_CONF_KEY_LIMIT_MB) | BIT(WEIR_CONF_KEY_LIMIT) | BIT(WEIR_CONF_KEY_FRACTION))
#define MAX_SPLIT_ABOVE (20 * WEIR_CONF_MIB)

static bool check_say(char *error, const char *sentence)
{
    snprintf(error, WEIR_CONF_ERROR_BYTES, "%s", sentence);
    return false;
}

static bool check_limit_once(const weir_conf_reader *reader)
{
    uint64_t limits = reader->seen & LIMIT_KEYS;
    return (limits & (limits - 1)) == 0 ||
           check_say(reader->error, "limit_mb, limit and per_process_memory_fraction all set the "
                                    "limit; keep one of them");
}

/* A backend name of PyTorch names a source too: it is taken, unless `source` says otherwise. */
static bool check_meant_source(const weir_conf_reader *reader)
{
    weir_conf *conf = reader->conf;
    if (!reader->meant_set) {
        return true;
    }
    if ((reader->seen & BIT(WEIR_CONF_KEY_SOURCE)) != 0 && conf->source != reader->meant) {
        snprintf(reader->error, WEIR_CONF_ERROR_BYTES,
                 "source:%s contradicts the backend, which means source:%s; the nearest valid "
                 "setting is source:%s",
                 weir_conf_source_names[conf->source], weir_conf_source_names[reader->meant],
                 weir_conf_source_names[reader->meant]);
        return false;
    }
    conf->source = reader->meant;
    return true;
}

static bool check_source_backend(const weir_conf_reader *reader)
{
    const weir_conf *conf = reader->conf;
    if (conf->source == WEIR_CONF_VMM || conf->backend == WEIR_CONF_AUTO ||
        conf->backend == WEIR_CONF_CUDA) {
        return true;
    }
    snprintf(reader->error, WEIR_CONF_ERROR_BYTES,
             "source:%s is a source of CUDA and contradicts backend:%s; the nearest valid setting "
             "is backend:cuda",
             weir_conf_source_names[conf->source], weir_conf_backend_names[conf->backend]);
    return false;
}

static bool check_moves(const weir_conf_reader *reader)
{
    const weir_conf *conf = reader->conf;
    if (conf->pool.move_above_permille == 0) {
        return true;
    }
    if (conf->pool.no_moves) {
        return check_say(reader->error, "move_above contradicts moves:false; take one of them out");
    }
    return conf->source == WEIR_CONF_VMM ||
           check_say(reader->error, "move_above needs memory that can move; the nearest valid "
                                    "setting is source:vmm");
}

static bool check_growth(const weir_conf_reader *reader)
{
    const weir_conf *conf = reader->conf;
    return !conf->pool.no_growth || conf->initial.bytes != 0 || conf->initial.permille != 0 ||
           check_say(reader->error,
                     "expandable_segments:false without initial_pool_size_mb makes a pool that can "
                     "hold nothing; the nearest valid setting is expandable_segments:true");
}

static bool check_say_initial(char *error, const weir_conf_bytes *initial,
                              const weir_conf_bytes *bound, const char *name)
{
    char initial_text[WEIR_CONF_WORD_BYTES];
    char bound_text[WEIR_CONF_WORD_BYTES];
    weir_conf_format_bytes(initial, WEIR_CONF_MIB, initial_text);
    weir_conf_format_bytes(bound, WEIR_CONF_MIB, bound_text);
    snprintf(error, WEIR_CONF_ERROR_BYTES,
             "initial_pool_size_mb:%s is more than the %s; the nearest valid setting is "
             "initial_pool_size_mb:%s",
             initial_text, name, bound_text);
    return false;
}

/* Two parts, or two sizes: the rest waits for weir_conf_resolve. */
static bool check_initial(const weir_conf_reader *reader)
{
    const weir_conf_bytes *initial = &reader->conf->initial;
    const weir_conf_bytes *limit = &reader->conf->limit;
    bool parts = initial->permille > limit->permille && limit->permille != 0;
    bool sizes = limit->bytes != 0 && initial->permille == 0 && initial->bytes > limit->bytes;
    return (!parts && !sizes) || check_say_initial(reader->error, initial, limit, "limit");
}

bool weir_conf_agree(const weir_conf_reader *reader)
{
    return check_limit_once(reader) && check_meant_source(reader) && check_source_backend(reader) &&
           check_moves(reader) && check_growth(reader) && check_initial(reader);
}

/* Exact for every size of device: neither product can overflow. */
static uint64_t check_part(const weir_conf_bytes *size, uint64_t memory_bytes)
{
    if (size->permille == 0) {
        return size->bytes;
    }
    uint64_t thousands = memory_bytes / WEIR_CONF_PERMILLE;
    uint64_t rest = memory_bytes % WEIR_CONF_PERMILLE;
    return thousands * size->permille + rest * size->permille / WEIR_CONF_PERMILLE;
}

static bool check_memory_known(const weir_conf *conf, uint64_t memory_bytes, char *error)
{
    const struct {
        const weir_conf_bytes *size;
        const char *name;
    } sizes[] = {{&conf->limit, "limit_mb or per_process_memory_fraction"},
                 {&conf->initial, "initial_pool_size_mb"},
                 {&conf->max_split, "max_split_size_mb"},
                 {&conf->release_threshold, "release_threshold_mb"}};
    for (size_t i = 0; memory_bytes == 0 && i < sizeof sizes / sizeof sizes[0]; i++) {
        if (sizes[i].size->permille != 0) {
            snprintf(error, WEIR_CONF_ERROR_BYTES,
                     "%s is a part of the device's memory, whose size is not known; write it in "
                     "bytes, for example 8GiB",
                     sizes[i].name);
            return false;
        }
    }
    return true;
}

/* garbage_collection_threshold is a part of the limit: without one, of the device. */
static bool check_limit(const weir_conf *conf, uint64_t memory_bytes, weir_config *pool,
                        char *error)
{
    pool->limit_bytes = check_part(&conf->limit, memory_bytes);
    bool wanted = pool->limit_bytes != 0 || pool->gc_permille != 0;
    if (wanted && memory_bytes != 0 &&
        (pool->limit_bytes == 0 || pool->limit_bytes > memory_bytes)) {
        pool->limit_bytes = memory_bytes;
    }
    return !wanted || pool->limit_bytes != 0 ||
           check_say(error, "garbage_collection_threshold is a part of the limit, and neither a "
                            "limit nor the device's size is known; add for example limit:8GiB");
}

static bool check_initial_resolved(const weir_conf *conf, uint64_t memory_bytes, weir_config *pool,
                                   char *error)
{
    uint64_t bound = pool->limit_bytes != 0 ? pool->limit_bytes : memory_bytes;
    pool->initial_bytes = check_part(&conf->initial, memory_bytes);
    if (bound == 0 || pool->initial_bytes <= bound) {
        return true;
    }
    return check_say_initial(error, &(weir_conf_bytes){pool->initial_bytes, 0},
                             &(weir_conf_bytes){bound, 0},
                             bound == memory_bytes ? "device's memory" : "limit");
}

static bool check_max_split(const weir_conf *conf, uint64_t memory_bytes, weir_config *pool,
                            char *error)
{
    pool->max_split_bytes = check_part(&conf->max_split, memory_bytes);
    return conf->max_split.permille == 0 || pool->max_split_bytes > MAX_SPLIT_ABOVE ||
           check_say(error, "max_split_size_mb comes to 20 MiB or less on this device; the nearest "
                            "valid setting is max_split_size_mb:21");
}

weir_status weir_conf_resolve(weir_conf *conf, uint64_t memory_bytes,
                              char error[WEIR_CONF_ERROR_BYTES])
{
    weir_config pool = conf->pool;
    if (!check_memory_known(conf, memory_bytes, error) ||
        !check_limit(conf, memory_bytes, &pool, error) ||
        !check_initial_resolved(conf, memory_bytes, &pool, error) ||
        !check_max_split(conf, memory_bytes, &pool, error)) {
        return WEIR_INVALID;
    }
    pool.growth_bytes = conf->growth.bytes;
    pool.small_bytes = conf->small.bytes;
    pool.keep_bytes = check_part(&conf->release_threshold, memory_bytes);
    pool.keep_bounded = conf->release_threshold_set;
    conf->pool = pool;
    return WEIR_OK;
}
