/* SPDX-License-Identifier: MIT */
/*
 * What the files of the configuration parser share: numbers (conf_number.c), the table of keys
 * (conf_keys.c), the readers of values (conf_value.c) and the checks between keys (conf_check.c).
 * Not a public header.
 */
#ifndef WEIR_CONF_PARTS_H
#define WEIR_CONF_PARTS_H

#include "conf.h"

#define WEIR_CONF_KIB (UINT64_C(1) << 10)
#define WEIR_CONF_MIB (UINT64_C(1) << 20)
/* No size of a setting is larger: sums of two never overflow. */
#define WEIR_CONF_BYTES_MOST (UINT64_C(1) << 56)
#define WEIR_CONF_PERMILLE 1000u
#define WEIR_CONF_WORD_BYTES 32 /* room for any value that a message or a printed line names */

/* How a number read: well, not at all, with more decimals than can be kept, or beyond its range. In
 * the last two cases the nearest number that fits is given. */
typedef enum weir_conf_scan {
    WEIR_CONF_SCAN_OK,
    WEIR_CONF_SCAN_BAD,
    WEIR_CONF_SCAN_FINE,
    WEIR_CONF_SCAN_LARGE
} weir_conf_scan;

/* "123". All of `text` must be digits. */
weir_conf_scan weir_conf_scan_number(const char *text, uint64_t *value);
/* "0.8", "1.02", "1": in thousandths, three decimals at most. */
weir_conf_scan weir_conf_scan_permille(const char *text, uint32_t *permille);
/* "512", "1.5G", "40%". A bare number counts in `unit_bytes`; 0: a bare number is BAD. */
weir_conf_scan weir_conf_scan_bytes(const char *text, uint64_t unit_bytes, weir_conf_bytes *size);

/* The shortest text that weir_conf_scan_bytes with the same unit reads back to the same. */
void weir_conf_format_bytes(const weir_conf_bytes *size, uint64_t unit_bytes,
                            char text[WEIR_CONF_WORD_BYTES]);
void weir_conf_format_permille(uint32_t permille, char text[WEIR_CONF_WORD_BYTES]);

/* Edits (insert, delete, replace, swap of neighbours) that turn `a` into `b`; only the first 63
 * characters of each count. O(63 * 63). */
unsigned weir_conf_distance(const char *a, const char *b);

/* The names in the order of the enums of conf.h. */
extern const char *const weir_conf_backend_names[4];
extern const char *const weir_conf_source_names[3];

typedef enum weir_conf_key_index {
    WEIR_CONF_KEY_BACKEND,
    WEIR_CONF_KEY_SOURCE,
    WEIR_CONF_KEY_LIMIT_MB,
    WEIR_CONF_KEY_LIMIT,
    WEIR_CONF_KEY_FRACTION,
    WEIR_CONF_KEY_OTHERS
} weir_conf_key_index;

/* One text being read. */
typedef struct weir_conf_reader {
    weir_conf *conf;
    char *error;            /* WEIR_CONF_ERROR_BYTES of room */
    uint64_t seen;          /* a bit per key of the table */
    weir_conf_source meant; /* the source that a backend name of PyTorch implies */
    bool meant_set;
} weir_conf_reader;

typedef struct weir_conf_key weir_conf_key;
struct weir_conf_key {
    const char *name;
    bool (*read)(weir_conf_reader *reader, const weir_conf_key *key, const char *value);
    size_t field;   /* offset in weir_conf of what is set */
    uint64_t unit;  /* bytes that a bare number of a size counts */
    uint64_t least; /* bytes, thousandths or a count */
    uint64_t most;
    unsigned rules;
    const char *example; /* a valid value; for a refused key, why it is refused */
};

enum {
    WEIR_CONF_POWER_OF_TWO = 1u << 0,
    WEIR_CONF_NO_PART = 1u << 1 /* a part of the device is no answer here */
};

/* The key called `name`, or NULL. Its bit in `seen` is its place in the table. O(keys). */
const weir_conf_key *weir_conf_key_find(const char *name, uint64_t *bit);
/* The name that fewest edits turn `name` into, refused keys left out. */
const char *weir_conf_key_nearest(const char *name);

/* Readers: false with a sentence in reader->error. */
bool weir_conf_read_backend(weir_conf_reader *reader, const weir_conf_key *key, const char *value);
bool weir_conf_read_source(weir_conf_reader *reader, const weir_conf_key *key, const char *value);
bool weir_conf_read_size(weir_conf_reader *reader, const weir_conf_key *key, const char *value);
bool weir_conf_read_threshold(weir_conf_reader *reader, const weir_conf_key *key,
                              const char *value);
bool weir_conf_read_fraction(weir_conf_reader *reader, const weir_conf_key *key, const char *value);
bool weir_conf_read_permille(weir_conf_reader *reader, const weir_conf_key *key, const char *value);
bool weir_conf_read_count(weir_conf_reader *reader, const weir_conf_key *key, const char *value);
bool weir_conf_read_blocks(weir_conf_reader *reader, const weir_conf_key *key, const char *value);
bool weir_conf_read_wait(weir_conf_reader *reader, const weir_conf_key *key, const char *value);
bool weir_conf_read_not(weir_conf_reader *reader, const weir_conf_key *key, const char *value);
bool weir_conf_read_true(weir_conf_reader *reader, const weir_conf_key *key, const char *value);
bool weir_conf_read_refused(weir_conf_reader *reader, const weir_conf_key *key, const char *value);
bool weir_conf_read_roundup(weir_conf_reader *reader, const weir_conf_key *key, const char *value);

/* Messages; they return false so that a reader can end with them. */
bool weir_conf_say_nearest(const weir_conf_reader *reader, const weir_conf_key *key,
                           const char *value, const char *why, const char *nearest);
bool weir_conf_say_example(const weir_conf_reader *reader, const weir_conf_key *key,
                           const char *value, const char *why);

/* What no two settings may say together; `seen` are the keys of the text just read. */
bool weir_conf_agree(const weir_conf_reader *reader);

#endif
