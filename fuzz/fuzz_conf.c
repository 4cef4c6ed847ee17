/* SPDX-License-Identifier: MIT */
/*
 * Target: the line of settings. What it reads, prints, and reads again must be the same; what it
 * refuses must leave the settings alone and say so in one sentence; blanks and the order of entries
 * mean nothing. Sizes, parts and counts are computed a second time here, by long division.
 *
 * Input: one byte (the device's memory for resolve), then text; records end with a comma.
 */
#include "conf.h"
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONF_TEXT = 4200 };

__extension__ typedef unsigned __int128 conf_wide;

static bool conf_same(const weir_conf *a, const weir_conf *b)
{
    const weir_config *p = &a->pool, *q = &b->pool;
    const weir_conf_bytes *x[] = {&a->limit,  &a->initial, &a->max_split,
                                  &a->growth, &a->small,   &a->release_threshold};
    const weir_conf_bytes *y[] = {&b->limit,  &b->initial, &b->max_split,
                                  &b->growth, &b->small,   &b->release_threshold};
    for (size_t i = 0; i < sizeof x / sizeof *x; i++)
        if (x[i]->bytes != y[i]->bytes || x[i]->permille != y[i]->permille) return false;
    return a->backend == b->backend && a->source == b->source &&
           a->release_threshold_set == b->release_threshold_set &&
           p->limit_bytes == q->limit_bytes && p->initial_bytes == q->initial_bytes &&
           p->unit_bytes == q->unit_bytes && p->max_blocks == q->max_blocks &&
           p->no_growth == q->no_growth && p->no_moves == q->no_moves &&
           p->no_rescue == q->no_rescue && p->no_stream_reuse == q->no_stream_reuse &&
           p->small_bytes == q->small_bytes && p->growth_bytes == q->growth_bytes &&
           p->move_above_permille == q->move_above_permille &&
           p->max_split_bytes == q->max_split_bytes && p->gc_permille == q->gc_permille &&
           p->keep_bytes == q->keep_bytes && p->keep_bounded == q->keep_bounded &&
           p->wait_us == q->wait_us &&
           memcmp(p->roundup_divisions, q->roundup_divisions, sizeof p->roundup_divisions) == 0;
}

/* One sentence, ended within its room, without control characters. */
static void conf_sentence(const char error[WEIR_CONF_ERROR_BYTES])
{
    const char *end = memchr(error, '\0', WEIR_CONF_ERROR_BYTES);
    size_t length = end == NULL ? 0 : (size_t)(end - error);
    FUZZ_SAY(length > 0, "no sentence");
    for (size_t i = 0; i < length; i++)
        FUZZ_SAY(error[i] >= ' ' && error[i] <= '~', "a sentence with byte %d", error[i]);
}

static weir_status conf_read(weir_conf *conf, const char *text)
{
    char error[WEIR_CONF_ERROR_BYTES];
    weir_conf before = *conf;
    memset(error, 0x7F, sizeof error);
    weir_status status = weir_conf_parse(conf, text, error);
    FUZZ_CHECK(status == WEIR_OK || status == WEIR_INVALID);
    if (status == WEIR_OK) return status;
    FUZZ_SAY(conf_same(conf, &before), "a refused line changed the settings");
    conf_sentence(error);
    return status;
}

/* -------------------------------------------------------------------------- print and reread -- */

static void conf_print(const weir_conf *conf)
{
    char line[CONF_TEXT], again[CONF_TEXT], part[64];
    weir_conf reread;
    size_t length = weir_conf_print(conf, line, sizeof line);
    FUZZ_CHECK(length == strlen(line));
    weir_conf_init(&reread);
    FUZZ_SAY(conf_read(&reread, line) == WEIR_OK, "what was printed is refused: %s", line);
    FUZZ_SAY(conf_same(conf, &reread), "read back as something else: %s", line);
    weir_conf_print(&reread, again, sizeof again);
    FUZZ_SAY(strcmp(line, again) == 0, "printed twice: %s and %s", line, again);
    size_t room = length % sizeof part;
    memset(part, 'x', sizeof part);
    FUZZ_CHECK(weir_conf_print(conf, part, room) == length);
    if (room > 0) FUZZ_CHECK(strlen(part) < room && strncmp(part, line, room - 1) == 0);
    for (size_t i = room; i < sizeof part; i++) FUZZ_SAY(part[i] == 'x', "printed beyond the room");
}

/* Blanks between all characters. */
static void conf_blanks(const weir_conf *conf, const char *text)
{
    static char wide[2 * CONF_TEXT];
    weir_conf other;
    size_t at = 0;
    for (const char *from = text; *from != '\0'; from++) {
        wide[at] = *from;
        wide[at + 1] = " \t\n\r"[at >> 1 & 3];
        at += 2;
    }
    wide[at] = '\0';
    weir_conf_init(&other);
    FUZZ_SAY(conf_read(&other, wide) == WEIR_OK && conf_same(conf, &other), "blanks changed it");
}

/* ---------------------------------------------------------------------------------- entries -- */

typedef struct conf_entry {
    char text[CONF_TEXT];
    const char *key, *value;
} conf_entry;

/* Takes the last entry off a line without blanks; commas in brackets do not end one. */
static bool conf_pop(char *line, conf_entry *entry)
{
    size_t length = strlen(line), depth = 0;
    if (length == 0) return false;
    while (length > 0 && (line[length - 1] != ',' || depth != 0)) {
        depth += line[length - 1] == ']';
        depth -= line[length - 1] == '[' && depth > 0;
        length--;
    }
    snprintf(entry->text, sizeof entry->text, "%s", line + length);
    line[length == 0 ? 0 : length - 1] = '\0';
    char *colon = strchr(entry->text, ':');
    FUZZ_SAY(colon != NULL, "an entry without a colon was taken: %s", entry->text);
    *colon = '\0';
    entry->key = entry->text;
    entry->value = colon + 1;
    return true;
}

static void conf_squeeze(const char *text, char line[CONF_TEXT])
{
    size_t at = 0;
    for (; *text != '\0'; text++)
        if (strchr(" \t\n\r", *text) == NULL) line[at++] = *text;
    line[at] = '\0';
}

/* A decimal number of units: floor(number * unit), exactly. False: it has another form. */
static bool conf_decimal(const char **at, uint64_t unit, conf_wide *result)
{
    conf_wide whole = 0, part = 0, scale = 1;
    const char *from = *at;
    for (; **at >= '0' && **at <= '9'; ++*at) whole = whole * 10 + (uint8_t)(**at - '0');
    if (*at == from || *at - from > 20) return false;
    if (**at == '.') {
        for (++*at; **at >= '0' && **at <= '9' && scale < 1000000; ++*at) {
            part = part * 10 + (uint8_t)(**at - '0');
            scale *= 10;
        }
        while (**at == '0') ++*at;
    }
    *result = whole * unit + part * unit / scale;
    return true;
}

static uint64_t conf_unit(const char *suffix, uint64_t bare)
{
    static const char letters[] = "kmgt";
    if (*suffix == '\0') return bare;
    const char *letter = strchr(letters, *suffix | 0x20);
    return letter == NULL ? 1 : UINT64_C(1) << (10 * (letter - letters + 1));
}

/* What a size must have been read as. */
static void conf_size(const conf_entry *entry, uint64_t bare, const weir_conf_bytes *got)
{
    const char *at = entry->value, *end = at + strspn(at, "0123456789.");
    conf_wide wanted;
    if (strchr(end, '%') != NULL) {
        FUZZ_CHECK(conf_decimal(&at, 10, &wanted));
        FUZZ_SAY(got->permille == wanted && got->bytes == 0, "%s:%s", entry->key, entry->value);
        return;
    }
    FUZZ_CHECK(conf_decimal(&at, conf_unit(end, bare), &wanted));
    FUZZ_SAY(got->bytes == wanted && got->permille == 0, "%s:%s was read as %llu", entry->key,
             entry->value, (unsigned long long)got->bytes);
}

static void conf_expect(const conf_entry *entry, const weir_conf *conf)
{
    const uint64_t mib = UINT64_C(1) << 20;
    const char *key = entry->key, *at = entry->value;
    conf_wide wanted;
    if (strcmp(key, "limit_mb") == 0) conf_size(entry, mib, &conf->limit);
    if (strcmp(key, "limit") == 0) conf_size(entry, 1, &conf->limit);
    if (strcmp(key, "initial_pool_size_mb") == 0) conf_size(entry, mib, &conf->initial);
    if (strcmp(key, "max_split_size_mb") == 0) conf_size(entry, mib, &conf->max_split);
    if (strcmp(key, "growth_mb") == 0) conf_size(entry, mib, &conf->growth);
    if (strcmp(key, "small_kb") == 0) conf_size(entry, 1024, &conf->small);
    if (strcmp(key, "release_threshold_mb") == 0) conf_size(entry, mib, &conf->release_threshold);
    if (strcmp(key, "garbage_collection_threshold") == 0)
        FUZZ_CHECK(conf_decimal(&at, 1000, &wanted) && conf->pool.gc_permille == wanted);
    if (strcmp(key, "move_above") == 0)
        FUZZ_CHECK(conf_decimal(&at, 1000, &wanted) && conf->pool.move_above_permille == wanted);
    if (strcmp(key, "unit_bytes") == 0)
        FUZZ_CHECK(conf_decimal(&at, 1, &wanted) && conf->pool.unit_bytes == wanted);
    if (strcmp(key, "max_blocks") == 0)
        FUZZ_CHECK(conf_decimal(&at, 1, &wanted) && conf->pool.max_blocks == wanted);
    if (strcmp(key, "moves") == 0) FUZZ_CHECK(conf->pool.no_moves != (strchr("tT1", *at) != NULL));
}

/* Each entry means what it says, and the same in the other order. */
static void conf_entries(const weir_conf *conf, const char *text)
{
    static char line[CONF_TEXT], back[CONF_TEXT];
    static conf_entry entry;
    weir_conf other;
    size_t at = 0;
    conf_squeeze(text, line);
    back[0] = '\0';
    while (conf_pop(line, &entry)) {
        at += (size_t)snprintf(back + at, sizeof back - at, "%s%s:%s", at == 0 ? "" : ",",
                               entry.key, entry.value);
        conf_expect(&entry, conf);
    }
    weir_conf_init(&other);
    FUZZ_SAY(conf_read(&other, back) == WEIR_OK && conf_same(conf, &other),
             "in the other order it is something else: %s", back);
}

/* ---------------------------------------------------------------------------------- resolve -- */

/* A size in bytes, of a device with so much memory. */
static uint64_t conf_part(const weir_conf_bytes *size, uint64_t memory)
{
    return size->permille == 0 ? size->bytes
                               : (uint64_t)((conf_wide)memory * size->permille / 1000);
}

/* What the pool is told: absolute sizes that agree with each other and with the device. */
static void conf_resolve(const weir_conf *conf, uint8_t memory)
{
    char error[WEIR_CONF_ERROR_BYTES];
    weir_conf other = *conf;
    uint64_t bytes = memory == 0 ? 0 : (UINT64_C(1) + (memory & 15)) << (20 + (memory >> 4));
    memset(error, 0x7F, sizeof error);
    if (weir_conf_resolve(&other, bytes, error) != WEIR_OK) {
        conf_sentence(error);
        FUZZ_SAY(conf_same(conf, &other), "a refused resolve changed the settings");
        return;
    }
    const weir_config *pool = &other.pool;
    bool bounded = pool->limit_bytes != 0 && pool->limit_bytes != WEIR_NO_LIMIT;
    if (bounded && bytes != 0) FUZZ_CHECK(pool->limit_bytes <= bytes);
    uint64_t limit = conf_part(&conf->limit, bytes);
    if (limit != 0 && (bytes == 0 || limit <= bytes)) FUZZ_CHECK(pool->limit_bytes == limit);
    FUZZ_CHECK(pool->initial_bytes == conf_part(&conf->initial, bytes));
    if (bounded) FUZZ_CHECK(pool->initial_bytes <= pool->limit_bytes);
    FUZZ_CHECK(pool->growth_bytes == 0 || (pool->growth_bytes & (pool->growth_bytes - 1)) == 0);
    FUZZ_CHECK(pool->gc_permille < 1000);
    for (size_t i = 0; i < 16; i++) {
        uint32_t steps = pool->roundup_divisions[i];
        FUZZ_CHECK((steps & (steps - 1)) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char text[CONF_TEXT];
    fuzz_input in = {data, size};
    uint8_t memory = fuzz_byte(&in);
    size_t length = in.left < sizeof text - 1 ? in.left : sizeof text - 1;
    weir_conf conf;
    uint64_t bytes = UINT64_MAX;
    if (length != 0) memcpy(text, in.at, length);
    text[length] = '\0';
    weir_conf_init(&conf);
    if (weir_conf_size(text, &bytes) != WEIR_OK) FUZZ_CHECK(bytes == UINT64_MAX);
    if (conf_read(&conf, text) != WEIR_OK) return 0;
    conf_print(&conf);
    conf_blanks(&conf, text);
    conf_entries(&conf, text);
    conf_resolve(&conf, memory);
    return 0;
}
