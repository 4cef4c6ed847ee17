/* SPDX-License-Identifier: MIT */
/*
 * Readers: each turns the text of one value into a field of weir_conf, within the bounds that its
 * key has in the table, or says what is wrong and what the nearest valid value would be.
 *
 * Invariant: a reader that returns false has written a sentence; one that returns true has set its
 *            field whole, so that an earlier setting leaves nothing behind.
 * Cost:      O(length of the value).
 */
#include "conf_parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char *const weir_conf_backend_names[4] = {"auto", "sim", "host", "cuda"};
const char *const weir_conf_source_names[3] = {"vmm", "async", "malloc"};

bool weir_conf_say_nearest(const weir_conf_reader *reader, const weir_conf_key *key,
                           const char *value, const char *why, const char *nearest)
{
    snprintf(reader->error, WEIR_CONF_ERROR_BYTES,
             "%s:%.40s %s; the nearest valid setting is %s:%s", key->name, value, why, key->name,
             nearest);
    return false;
}

bool weir_conf_say_example(const weir_conf_reader *reader, const weir_conf_key *key,
                           const char *value, const char *why)
{
    snprintf(reader->error, WEIR_CONF_ERROR_BYTES, "%s:%.40s %s; write for example %s:%s",
             key->name, value, why, key->name, key->example);
    return false;
}

static void *value_field(const weir_conf_reader *reader, const weir_conf_key *key)
{
    return (char *)reader->conf + key->field;
}

/* The place of the name that is `value`, or `names` when there is none, with the nearest one. */
static size_t value_choice(const char *const *names, size_t count, const char *value,
                           const char **nearest)
{
    size_t best = 0;
    unsigned best_edits = UINT32_MAX;
    for (size_t i = 0; i < count; i++) {
        unsigned edits = weir_conf_distance(value, names[i]);
        if (edits < best_edits) {
            best = i;
            best_edits = edits;
        }
    }
    *nearest = names[best];
    return strcmp(value, names[best]) == 0 ? best : count;
}

static void value_mean(weir_conf_reader *reader, weir_conf_backend backend, weir_conf_source source)
{
    reader->conf->backend = backend;
    reader->meant = source;
    reader->meant_set = true;
}

bool weir_conf_read_backend(weir_conf_reader *reader, const weir_conf_key *key, const char *value)
{
    const char *nearest;
    size_t choice = value_choice(weir_conf_backend_names, 4, value, &nearest);
    if (strcmp(value, "native") == 0) {
        value_mean(reader, WEIR_CONF_AUTO, WEIR_CONF_VMM);
    } else if (strcmp(value, "cudaMallocAsync") == 0) {
        value_mean(reader, WEIR_CONF_CUDA, WEIR_CONF_ASYNC);
    } else if (choice == 4) {
        return weir_conf_say_nearest(reader, key, value, "is not a backend", nearest);
    } else {
        reader->conf->backend = (weir_conf_backend)choice;
    }
    return true;
}

bool weir_conf_read_source(weir_conf_reader *reader, const weir_conf_key *key, const char *value)
{
    const char *nearest;
    size_t choice = value_choice(weir_conf_source_names, 3, value, &nearest);
    if (choice == 3) {
        return weir_conf_say_nearest(reader, key, value, "is not a source of memory", nearest);
    }
    reader->conf->source = (weir_conf_source)choice;
    return true;
}

static const char *value_range(const weir_conf_key *key, uint64_t value)
{
    if (value < key->least) {
        return "is too small";
    }
    if (value > key->most) {
        return "is too large";
    }
    bool power = (key->rules & WEIR_CONF_POWER_OF_TWO) != 0;
    return power && (value & (value - 1)) != 0 ? "is no power of two" : NULL;
}

/* The valid value nearest to one that value_range refused. The bounds of keys that want a power of
 * two are powers of two themselves, or zero. */
static uint64_t value_nearest(const weir_conf_key *key, uint64_t value)
{
    if (value < key->least || value > key->most) {
        return value < key->least ? key->least : key->most;
    }
    uint64_t below = 1;
    while (below * 2 <= value) {
        below *= 2;
    }
    return value - below <= below * 2 - value ? below : below * 2;
}

static bool value_say_size(const weir_conf_reader *reader, const weir_conf_key *key,
                           const char *value, const char *why, weir_conf_bytes nearest)
{
    char text[WEIR_CONF_WORD_BYTES];
    weir_conf_format_bytes(&nearest, key->unit, text);
    return weir_conf_say_nearest(reader, key, value, why, text);
}

static bool value_part(const weir_conf_reader *reader, const weir_conf_key *key, const char *value,
                       weir_conf_scan scan, uint32_t permille)
{
    if ((key->rules & WEIR_CONF_NO_PART) != 0) {
        return weir_conf_say_example(reader, key, value, "may not be a part of the device");
    }
    if (permille > WEIR_CONF_PERMILLE) {
        return value_say_size(reader, key, value, "is more than the device",
                              (weir_conf_bytes){0, WEIR_CONF_PERMILLE});
    }
    if (scan == WEIR_CONF_SCAN_FINE || permille == 0) {
        return value_say_size(reader, key, value, "is not a multiple of 0.1%",
                              (weir_conf_bytes){0, permille == 0 ? 1 : permille});
    }
    return true;
}

static bool value_absolute(const weir_conf_reader *reader, const weir_conf_key *key,
                           const char *value, weir_conf_scan scan, uint64_t bytes)
{
    const char *why = value_range(key, bytes);
    if (why != NULL) {
        return value_say_size(reader, key, value, why,
                              (weir_conf_bytes){value_nearest(key, bytes), 0});
    }
    if (scan == WEIR_CONF_SCAN_FINE) {
        return value_say_size(reader, key, value, "has too many decimals",
                              (weir_conf_bytes){bytes, 0});
    }
    return true;
}

bool weir_conf_read_size(weir_conf_reader *reader, const weir_conf_key *key, const char *value)
{
    weir_conf_bytes size;
    weir_conf_scan scan = weir_conf_scan_bytes(value, key->unit, &size);
    if (scan == WEIR_CONF_SCAN_BAD) {
        return weir_conf_say_example(reader, key, value,
                                     key->unit == 0 ? "is not a size with its unit (K, M, G, T, %)"
                                                    : "is not a size");
    }
    bool part = strchr(value, '%') != NULL;
    if (part ? !value_part(reader, key, value, scan, size.permille)
             : !value_absolute(reader, key, value, scan, size.bytes)) {
        return false;
    }
    *(weir_conf_bytes *)value_field(reader, key) = size;
    return true;
}

bool weir_conf_read_threshold(weir_conf_reader *reader, const weir_conf_key *key, const char *value)
{
    bool read = weir_conf_read_size(reader, key, value);
    reader->conf->release_threshold_set |= read;
    return read;
}

static bool value_permille(const weir_conf_reader *reader, const weir_conf_key *key,
                           const char *value, uint32_t *permille)
{
    char nearest[WEIR_CONF_WORD_BYTES];
    weir_conf_scan scan = weir_conf_scan_permille(value, permille);
    if (scan == WEIR_CONF_SCAN_BAD) {
        return weir_conf_say_example(reader, key, value, "is not a decimal number");
    }
    const char *why = value_range(key, *permille);
    if (why != NULL) {
        weir_conf_format_permille((uint32_t)value_nearest(key, *permille), nearest);
        return weir_conf_say_nearest(reader, key, value, why, nearest);
    }
    if (scan == WEIR_CONF_SCAN_FINE) {
        weir_conf_format_permille(*permille, nearest);
        return weir_conf_say_nearest(reader, key, value, "has more than three decimals", nearest);
    }
    return true;
}

bool weir_conf_read_fraction(weir_conf_reader *reader, const weir_conf_key *key, const char *value)
{
    weir_conf_bytes size = {0, 0};
    if (!value_permille(reader, key, value, &size.permille)) {
        return false;
    }
    *(weir_conf_bytes *)value_field(reader, key) = size;
    return true;
}

bool weir_conf_read_permille(weir_conf_reader *reader, const weir_conf_key *key, const char *value)
{
    return value_permille(reader, key, value, (uint32_t *)value_field(reader, key));
}

static bool value_count(const weir_conf_reader *reader, const weir_conf_key *key, const char *value,
                        uint64_t *count)
{
    char nearest[WEIR_CONF_WORD_BYTES];
    if (weir_conf_scan_number(value, count) == WEIR_CONF_SCAN_BAD) {
        return weir_conf_say_example(reader, key, value, "is not a whole number");
    }
    const char *why = value_range(key, *count);
    if (why != NULL) {
        snprintf(nearest, sizeof nearest, "%" PRIu64, value_nearest(key, *count));
        return weir_conf_say_nearest(reader, key, value, why, nearest);
    }
    return true;
}

bool weir_conf_read_count(weir_conf_reader *reader, const weir_conf_key *key, const char *value)
{
    return value_count(reader, key, value, (uint64_t *)value_field(reader, key));
}

bool weir_conf_read_blocks(weir_conf_reader *reader, const weir_conf_key *key, const char *value)
{
    uint64_t count;
    if (!value_count(reader, key, value, &count)) {
        return false;
    }
    *(uint32_t *)value_field(reader, key) = (uint32_t)count;
    return true;
}

/* The pool reads 0 as "for ever", so the shortest bound stands for "not at all". */
bool weir_conf_read_wait(weir_conf_reader *reader, const weir_conf_key *key, const char *value)
{
    uint64_t wait_us = 0;
    if (strcmp(value, "forever") != 0) {
        if (!value_count(reader, key, value, &wait_us)) {
            return false;
        }
        wait_us += wait_us == 0;
    }
    *(uint64_t *)value_field(reader, key) = wait_us;
    return true;
}

/* What a word that is no valid flag most likely means: "no", "off" and "F..." are false. */
static bool value_doubtful(const char *value)
{
    return strchr("fFnN0", value[0]) == NULL && strncmp(value, "of", 2) != 0;
}

static bool value_flag(const weir_conf_reader *reader, const weir_conf_key *key, const char *value,
                       bool *flag)
{
    static const char *const words[] = {"true", "false", "True", "False", "1", "0"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcmp(value, words[i]) == 0) {
            *flag = i % 2 == 0;
            return true;
        }
    }
    return weir_conf_say_nearest(reader, key, value, "is neither true nor false",
                                 value_doubtful(value) ? "true" : "false");
}

bool weir_conf_read_not(weir_conf_reader *reader, const weir_conf_key *key, const char *value)
{
    bool flag = false;
    if (!value_flag(reader, key, value, &flag)) {
        return false;
    }
    *(bool *)value_field(reader, key) = !flag;
    return true;
}

bool weir_conf_read_true(weir_conf_reader *reader, const weir_conf_key *key, const char *value)
{
    bool flag = false;
    if (!value_flag(reader, key, value, &flag)) {
        return false;
    }
    return flag ||
           weir_conf_say_nearest(reader, key, value, "cannot be had, Weir always does so", "true");
}

bool weir_conf_read_refused(weir_conf_reader *reader, const weir_conf_key *key, const char *value)
{
    snprintf(reader->error, WEIR_CONF_ERROR_BYTES,
             "%s:%.40s has no counterpart in Weir, as %s; take it out", key->name, value,
             key->example);
    return false;
}
