/* SPDX-License-Identifier: MIT */
/*
 * WEIR_CONF: one line of settings in the grammar of PyTorch's allocator variable,
 *     key:value,key:value,key:[a:b,c:d,>:e]
 * Nothing is ignored in silence: an unknown key, a bad value, a key given twice or two keys that
 * contradict each other is an error whose text names the key, the value and the nearest valid one.
 * docs/configuration.md lists every key. No state; safe from any thread.
 */
#ifndef WEIR_CONF_H
#define WEIR_CONF_H

#include "weir.h"

#ifdef __cplusplus
extern "C" {
#endif

#define WEIR_CONF_ERROR_BYTES 256

typedef enum weir_conf_backend { WEIR_CONF_AUTO, WEIR_CONF_SIM, WEIR_CONF_HOST, WEIR_CONF_CUDA }
    weir_conf_backend;
typedef enum weir_conf_source { WEIR_CONF_VMM, WEIR_CONF_ASYNC, WEIR_CONF_MALLOC } weir_conf_source;

/* A size as it was written: bytes, or a part of the device's memory still to be resolved. */
typedef struct weir_conf_bytes {
    uint64_t bytes;
    uint32_t permille; /* not 0: this part of the device instead of `bytes` */
} weir_conf_bytes;

typedef struct weir_conf {
    weir_conf_backend backend;
    weir_conf_source source;
    weir_conf_bytes limit, initial, max_split, growth, small, release_threshold;
    bool release_threshold_set;
    weir_config pool; /* the rest, as weir_pool_create takes it; ops and platform are NULL */
} weir_conf;

/* Fills *conf with the defaults. */
void weir_conf_init(weir_conf *conf);

/* Reads `text` (NULL or "": nothing) over *conf. INVALID: *conf is unchanged and `error` holds one
 * sentence without a newline. */
weir_status weir_conf_parse(weir_conf *conf, const char *text, char error[WEIR_CONF_ERROR_BYTES]);

/* Reads the variable WEIR_CONF of the environment, or nothing if it is unset or the process runs
 * with raised privileges (setuid, file capabilities). */
weir_status weir_conf_environment(weir_conf *conf, char error[WEIR_CONF_ERROR_BYTES]);

/* Resolves parts of `memory_bytes` and checks what can only be checked then (an initial size above
 * the limit, a limit above the device's memory is lowered to it). `memory_bytes` 0: not known,
 * parts are an error. */
weir_status weir_conf_resolve(weir_conf *conf, uint64_t memory_bytes,
                              char error[WEIR_CONF_ERROR_BYTES]);

/* Reads one size: "512", "512M", "2GiB", "1.5G". INVALID. */
weir_status weir_conf_size(const char *text, uint64_t *bytes);

/* Writes the effective settings as a line that weir_conf_parse reads back to the same. Returns the
 * length it needs, like snprintf. */
size_t weir_conf_print(const weir_conf *conf, char *text, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
