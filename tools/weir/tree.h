/* SPDX-License-Identifier: MIT */
/* A JSON object as text for people: a heading for each part, a line for each fact. */
#ifndef WEIR_TREE_H
#define WEIR_TREE_H

#include "object.h"

/* Keys lose their underlines. A key that ends with _bytes is shown in the unit that fits, one with
 * _us in microseconds; null is "none". Strings of a list share a line; its objects are numbered, by
 * their key "ordinal" or from 0, but those of the keys "what" and "why" are one line each. The key
 * "schema" is left out. False where the stream does not take it. */
bool weir_tree_print(FILE *out, const weir_object *object);

#endif
