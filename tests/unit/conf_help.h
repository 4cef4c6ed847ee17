/* SPDX-License-Identifier: MIT */
/*
 * What the tests of the settings line share: reading a text that must be good, refusing one that
 * must not be, and comparing settings field by field.
 */
#ifndef CONF_HELP_H
#define CONF_HELP_H

#include "conf.h"

#include <criterion/criterion.h>
#include <string.h>

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

static inline bool conf_same_size(const weir_conf_bytes *a, const weir_conf_bytes *b)
{
    return a->bytes == b->bytes && a->permille == b->permille;
}

static inline bool conf_same_pool(const weir_config *a, const weir_config *b)
{
    return a->size == b->size && a->ops == b->ops && a->platform == b->platform &&
           a->limit_bytes == b->limit_bytes && a->initial_bytes == b->initial_bytes &&
           a->unit_bytes == b->unit_bytes && a->max_blocks == b->max_blocks &&
           a->no_growth == b->no_growth && a->no_moves == b->no_moves &&
           a->no_rescue == b->no_rescue && a->no_stream_reuse == b->no_stream_reuse &&
           a->small_bytes == b->small_bytes && a->growth_bytes == b->growth_bytes &&
           a->move_above_permille == b->move_above_permille &&
           a->max_split_bytes == b->max_split_bytes && a->gc_permille == b->gc_permille &&
           a->keep_bytes == b->keep_bytes && a->keep_bounded == b->keep_bounded &&
           memcmp(a->roundup_divisions, b->roundup_divisions, sizeof a->roundup_divisions) == 0 &&
           a->wait_us == b->wait_us;
}

static inline bool conf_same(const weir_conf *a, const weir_conf *b)
{
    return a->backend == b->backend && a->source == b->source &&
           conf_same_size(&a->limit, &b->limit) && conf_same_size(&a->initial, &b->initial) &&
           conf_same_size(&a->max_split, &b->max_split) && conf_same_size(&a->growth, &b->growth) &&
           conf_same_size(&a->small, &b->small) &&
           conf_same_size(&a->release_threshold, &b->release_threshold) &&
           a->release_threshold_set == b->release_threshold_set &&
           conf_same_pool(&a->pool, &b->pool);
}

static inline weir_conf conf_read(const char *text)
{
    weir_conf conf;
    char error[WEIR_CONF_ERROR_BYTES] = "";
    weir_conf_init(&conf);
    weir_status status = weir_conf_parse(&conf, text, error);
    cr_assert_eq(status, WEIR_OK, "%s: %s", text, error);
    return conf;
}

/* The text is refused, the settings stay as they were, and the sentence names both parts. */
static inline void conf_refuses(const char *text, const char *part, const char *nearest)
{
    weir_conf conf;
    char error[WEIR_CONF_ERROR_BYTES] = "";
    weir_conf_init(&conf);
    conf.pool.max_blocks = 77;
    weir_conf before = conf;
    cr_assert_eq(weir_conf_parse(&conf, text, error), WEIR_INVALID, "%s was accepted", text);
    cr_assert(conf_same(&conf, &before), "%s changed the settings", text);
    cr_assert_not_null(strstr(error, part), "%s: '%s' does not say '%s'", text, error, part);
    cr_assert_not_null(strstr(error, nearest), "%s: '%s' does not say '%s'", text, error, nearest);
    cr_assert_null(strchr(error, '\n'));
}

#endif
