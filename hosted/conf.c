/* SPDX-License-Identifier: MIT */
/*
 * The settings line: taken apart into key:value entries, each given to the reader of its key.
 *
 * Invariant: the caller's weir_conf changes only after the whole line was read without fault and
 *            its settings agree with each other.
 * Cost:      O(length * keys), once per process. Lines are at most LINE_BYTES long without blanks.
 */
#define _GNU_SOURCE /* secure_getenv */
#include "conf_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_BYTES 4096
#define VARIABLE "WEIR_CONF"

void weir_conf_init(weir_conf *conf)
{
    *conf = (weir_conf){.backend = WEIR_CONF_AUTO, .source = WEIR_CONF_VMM};
    conf->pool.size = sizeof conf->pool;
}

static bool conf_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Blanks mean nothing anywhere in the grammar; other characters that no key or value holds would
 * spoil the messages. */
static bool conf_squeeze(const char *text, char line[LINE_BYTES], char *error)
{
    size_t length = 0;
    for (size_t i = 0; text[i] != '\0'; i++) {
        if (conf_blank(text[i])) {
            continue;
        }
        if (text[i] < '!' || text[i] > '~') {
            snprintf(error, WEIR_CONF_ERROR_BYTES,
                     "character %zu of the settings is not printable ASCII; take it out", i + 1);
            return false;
        }
        if (length + 1 == LINE_BYTES) {
            snprintf(error, WEIR_CONF_ERROR_BYTES,
                     "the settings are longer than %d characters; take some out", LINE_BYTES - 1);
            return false;
        }
        line[length++] = text[i];
    }
    line[length] = '\0';
    return true;
}

/* Ends the entry at `entry` and returns what follows its comma, or NULL after the last one. Commas
 * in brackets belong to the value. */
static char *conf_cut(char *entry)
{
    bool inside = false;
    for (; *entry != '\0'; entry++) {
        if (*entry == ',' && !inside) {
            *entry = '\0';
            return entry + 1;
        }
        inside = *entry == '[' || (inside && *entry != ']');
    }
    return NULL;
}

static bool conf_say_shape(const weir_conf_reader *reader, const char *entry)
{
    if (*entry == '\0') {
        snprintf(reader->error, WEIR_CONF_ERROR_BYTES,
                 "an entry is empty; entries are key:value, with one comma between two");
        return false;
    }
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(entry, "="), entry);
    snprintf(reader->error, WEIR_CONF_ERROR_BYTES,
             "%.40s is not written as key:value; the nearest valid key is %s:", entry,
             weir_conf_key_nearest(name));
    return false;
}

static bool conf_entry(weir_conf_reader *reader, char *entry)
{
    char *value = strchr(entry, ':');
    uint64_t bit = 0;
    if (value == NULL || value == entry) {
        return conf_say_shape(reader, entry);
    }
    *value++ = '\0';
    const weir_conf_key *key = weir_conf_key_find(entry, &bit);
    if (key == NULL) {
        snprintf(reader->error, WEIR_CONF_ERROR_BYTES,
                 "%.40s:%.40s has a key that is not known; the nearest valid key is %s", entry,
                 value, weir_conf_key_nearest(entry));
        return false;
    }
    if ((reader->seen & bit) != 0) {
        snprintf(reader->error, WEIR_CONF_ERROR_BYTES,
                 "%s:%.40s comes after another value for the same key; keep one of them", key->name,
                 value);
        return false;
    }
    reader->seen |= bit;
    return key->read(reader, key, value);
}

weir_status weir_conf_parse(weir_conf *conf, const char *text, char error[WEIR_CONF_ERROR_BYTES])
{
    char line[LINE_BYTES];
    weir_conf copy = *conf;
    weir_conf_reader reader = {.conf = &copy, .error = error};
    if (text == NULL) {
        return WEIR_OK;
    }
    if (!conf_squeeze(text, line, error)) {
        return WEIR_INVALID;
    }
    for (char *entry = line[0] == '\0' ? NULL : line; entry != NULL;) {
        char *next = conf_cut(entry);
        if (!conf_entry(&reader, entry)) {
            return WEIR_INVALID;
        }
        entry = next;
    }
    if (!weir_conf_agree(&reader)) {
        return WEIR_INVALID;
    }
    *conf = copy;
    return WEIR_OK;
}

weir_status weir_conf_environment(weir_conf *conf, char error[WEIR_CONF_ERROR_BYTES])
{
    char sentence[WEIR_CONF_ERROR_BYTES];
    weir_status status = weir_conf_parse(conf, secure_getenv(VARIABLE), sentence);
    if (status != WEIR_OK) {
        snprintf(error, WEIR_CONF_ERROR_BYTES, "%s: %.*s", VARIABLE,
                 WEIR_CONF_ERROR_BYTES - (int)sizeof VARIABLE - 2, sentence);
    }
    return status;
}
