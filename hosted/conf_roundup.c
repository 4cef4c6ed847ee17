/* SPDX-License-Identifier: MIT */
/*
 * roundup_power2_divisions, with the meaning that PyTorch gives it: one number of steps for all
 * sizes, or a list [256:1,512:2,>:4] whose entry b:n counts for sizes from b MiB up to 2b MiB. The
 * first entry also counts for all smaller sizes, ">" for all larger ones, and a power of two that
 * is left out in between is not rounded.
 *
 * Invariant: the field is replaced whole, and only by a list that reads without fault.
 * Cost:      O(length of the value).
 */
#include "conf_parts.h"

#include <string.h>

#define ENTRIES 16
#define BOUNDARY_MOST (UINT64_C(1) << (ENTRIES - 1))
#define WORD_BYTES 24

struct roundup {
    const weir_conf_reader *reader;
    const weir_conf_key *key;
    const char *value;
    uint32_t steps[ENTRIES];
    unsigned next; /* the least place that the next entry may fill */
    bool any;
    bool closed; /* ">" was read */
};

static bool roundup_fail(const struct roundup *roundup, const char *why)
{
    return weir_conf_say_example(roundup->reader, roundup->key, roundup->value, why);
}

/* 0, or a power of two up to the key's bound. */
static bool roundup_steps(const struct roundup *roundup, const char *text, uint32_t *steps)
{
    uint64_t value;
    if (weir_conf_scan_number(text, &value) != WEIR_CONF_SCAN_OK || value > roundup->key->most ||
        (value & (value - 1)) != 0) {
        return roundup_fail(roundup, "has steps that are not 0 or a power of two up to 1024");
    }
    *steps = (uint32_t)value;
    return true;
}

static void roundup_fill(struct roundup *roundup, unsigned from, unsigned to, uint32_t steps)
{
    for (unsigned i = from; i < to; i++) {
        roundup->steps[i] = steps;
    }
}

static bool roundup_boundary(struct roundup *roundup, const char *boundary, uint32_t steps)
{
    uint64_t mib;
    unsigned place = 0;
    if (weir_conf_scan_number(boundary, &mib) != WEIR_CONF_SCAN_OK || mib == 0 ||
        mib > BOUNDARY_MOST || (mib & (mib - 1)) != 0) {
        return roundup_fail(roundup, "has a boundary that is no power of two from 1 to 32768 MiB");
    }
    while (UINT64_C(1) << place != mib) {
        place++;
    }
    if (place < roundup->next) {
        return roundup_fail(roundup, "has boundaries that do not rise");
    }
    roundup_fill(roundup, roundup->any ? place : 0, place + 1, steps);
    roundup->next = place + 1;
    roundup->any = true;
    return true;
}

static bool roundup_pair(struct roundup *roundup, const char *boundary, const char *steps_text)
{
    uint32_t steps = 0;
    if (!roundup_steps(roundup, steps_text, &steps)) {
        return false;
    }
    if (roundup->closed) {
        return roundup_fail(roundup, "has an entry after the one for all larger sizes");
    }
    if (strcmp(boundary, ">") != 0) {
        return roundup_boundary(roundup, boundary, steps);
    }
    roundup_fill(roundup, roundup->next, ENTRIES, steps);
    roundup->closed = true;
    return true;
}

/* Copies what stands before one of the characters `ends`; false if there is none or it is long. */
static bool roundup_word(const char **at, const char *ends, char word[WORD_BYTES])
{
    size_t length = strcspn(*at, ends);
    if ((*at)[length] == '\0' || length >= WORD_BYTES) {
        return false;
    }
    memcpy(word, *at, length);
    word[length] = '\0';
    *at += length;
    return true;
}

static bool roundup_list(struct roundup *roundup)
{
    const char *at = roundup->value;
    char boundary[WORD_BYTES];
    char steps[WORD_BYTES];
    do {
        at++;
        if (!roundup_word(&at, ":,]", boundary) || *at++ != ':' ||
            !roundup_word(&at, ":,]", steps) || *at == ':') {
            return roundup_fail(roundup, "is not a list of boundary:steps in brackets");
        }
        if (!roundup_pair(roundup, boundary, steps)) {
            return false;
        }
    } while (*at == ',');
    return at[1] == '\0' || roundup_fail(roundup, "goes on after the closing bracket");
}

bool weir_conf_read_roundup(weir_conf_reader *reader, const weir_conf_key *key, const char *value)
{
    struct roundup roundup = {reader, key, value, {0}, 0, false, false};
    if (value[0] == '[') {
        if (!roundup_list(&roundup)) {
            return false;
        }
    } else if (!roundup_steps(&roundup, value, &roundup.steps[0])) {
        return false;
    } else {
        roundup_fill(&roundup, 1, ENTRIES, roundup.steps[0]);
    }
    memcpy((char *)reader->conf + key->field, roundup.steps, sizeof roundup.steps);
    return true;
}
