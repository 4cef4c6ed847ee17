/* SPDX-License-Identifier: MIT */
/* A set ordered by size and then address, for best fit. Nodes belong to the caller. */
#ifndef WEIR_SIZETREE_H
#define WEIR_SIZETREE_H

#include <stdint.h>

typedef struct weir_sizetree {
    struct weir_sizetree *left, *right;
    uint64_t bytes;
    uint64_t addr; /* no two nodes of a tree share it */
} weir_sizetree;

/* Each O(log n) expected; *root NULL is the empty set. */
void weir_sizetree_insert(weir_sizetree **root, weir_sizetree *node);
void weir_sizetree_remove(weir_sizetree **root, const weir_sizetree *node);

/* The least node of at least `bytes`, or NULL. */
weir_sizetree *weir_sizetree_fit(weir_sizetree *root, uint64_t bytes);

#endif
