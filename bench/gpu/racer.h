/* SPDX-License-Identifier: MIT */
/*
 * The race's one interface: what an allocator must do to take part. bench/gpu/README.md has the
 * rules.
 *
 * A contestant lives in one process, which opens it once and resets it before each run. A reset
 * gives everything back to the device, so each run begins with an empty allocator.
 *
 * Threads    alloc and free come from several threads in the threads event, each with a stream of
 *            its own; everything else from one.
 * Errors     alloc answers 0 where there is no memory. Whatever else goes wrong is noted, and the
 *            run does not count: fault tells it.
 */
#ifndef RACER_H
#define RACER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RACER_STREAMS 16u
#define RACER_KINDS_MAX 32u

typedef struct racer_gpu racer_gpu;
typedef struct racer_contestant racer_contestant;

typedef struct racer_why {
    char text[512];
} racer_why;

/* Keeps the first reason only. False, for the caller to return. */
bool racer_why_set(racer_why *why, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* What a contestant with a meter asked of the driver in one run. */
typedef struct racer_counts {
    uint32_t kinds;
    const char *name[RACER_KINDS_MAX];
    uint64_t count[RACER_KINDS_MAX];
    uint64_t ns[RACER_KINDS_MAX]; /* by the clock around each call, */
    uint64_t driver_ns;           /* and all together */
    uint64_t moved_handles, rescues, host_waits;
} racer_counts;

enum {
    RACER_CAPS = 1u << 0, /* a cap bounds the memory that it holds of the device */
    RACER_SLOW = 1u << 1, /* each pair is some tens of microseconds of driver: do few */
    RACER_PEER = 1u << 2  /* its least capacity is where the others are timed as well */
};

struct racer_contestant {
    const char *key;  /* on the command line */
    const char *name; /* in results */
    unsigned traits;

    /* NULL: *why says what is missing. The GPU's primary context is current. */
    void *(*open)(const racer_contestant *me, racer_gpu *gpu, racer_why *why);
    void (*close)(void *self);
    /* All blocks have been freed. `cap_bytes` 0: as much as the device has. The run uses the first
     * `streams` streams. */
    bool (*reset)(void *self, uint64_t cap_bytes, uint32_t streams, racer_why *why);

    uint64_t (*alloc)(void *self, uint32_t stream, uint64_t bytes);
    void (*free)(void *self, uint64_t addr, uint64_t bytes, uint32_t stream);
    /* The block of `owner` has been used on `side` too; its free comes later. */
    void (*use)(void *self, uint64_t addr, uint32_t owner, uint32_t side);

    uint64_t (*reserved)(void *self);      /* bytes held of the device now */
    uint64_t (*reserved_peak)(void *self); /* the most since reset */
    void (*trim)(void *self);              /* give back all that is free, as its users would */
    void *(*stream)(void *self, uint32_t stream); /* the CUstream */
    const char *(*fault)(void *self);             /* NULL: none since reset */

    /* Optional. From the next reset on, count and time what is asked of the driver. */
    void (*meter)(void *self, bool on);
    void (*counts)(void *self, racer_counts *counts);
};

/* The contestants in this program; NULL ends the list. */
const racer_contestant *const *racer_contestants(void);

#ifdef __cplusplus
}
#endif

#endif
