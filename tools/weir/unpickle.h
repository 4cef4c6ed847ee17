/* SPDX-License-Identifier: MIT */
/* Reads pickles that hold data alone: dicts with texts for keys, lists, tuples, numbers, texts. */
#ifndef WEIR_UNPICKLE_H
#define WEIR_UNPICKLE_H

#include <json-c/json.h>
#include <stddef.h>

#include "fault.h"

/* The value, tuples as lists; the caller's to put. NULL: *fault says which opcode at which byte is
 * not one of data, or what is broken. Nothing that a pickle names is ever called. O(bytes). */
json_object *weir_unpickle(const char *path, const char *data, size_t bytes, weir_fault *fault);

#endif
