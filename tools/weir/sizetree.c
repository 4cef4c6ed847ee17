/* SPDX-License-Identifier: MIT */
/*
 * A treap. A node's priority is a hash of its address, so the same sets have the same shape,
 * however they came to be.
 */
#include "sizetree.h"

#include <stdbool.h>
#include <stddef.h>

static uint64_t sizetree_priority(const weir_sizetree *node)
{
    uint64_t mix = node->addr * UINT64_C(0x9e3779b97f4a7c15);

    mix ^= mix >> 32;
    mix *= UINT64_C(0xd6e8feb86659fd93);
    return mix ^ (mix >> 32);
}

static bool sizetree_before(const weir_sizetree *a, const weir_sizetree *b)
{
    return a->bytes != b->bytes ? a->bytes < b->bytes : a->addr < b->addr;
}

/* Takes `tree` apart into what comes before `node` and the rest. */
static void sizetree_split(weir_sizetree *tree, const weir_sizetree *node, weir_sizetree **before,
                           weir_sizetree **rest)
{
    while (tree != NULL) {
        if (sizetree_before(tree, node)) {
            *before = tree;
            before = &tree->right;
            tree = tree->right;
        } else {
            *rest = tree;
            rest = &tree->left;
            tree = tree->left;
        }
    }
    *before = NULL;
    *rest = NULL;
}

static weir_sizetree *sizetree_join(weir_sizetree *before, weir_sizetree *rest)
{
    weir_sizetree *root = NULL, **place = &root;

    while (before != NULL && rest != NULL) {
        if (sizetree_priority(before) > sizetree_priority(rest)) {
            *place = before;
            place = &before->right;
            before = before->right;
        } else {
            *place = rest;
            place = &rest->left;
            rest = rest->left;
        }
    }
    *place = before != NULL ? before : rest;
    return root;
}

void weir_sizetree_insert(weir_sizetree **root, weir_sizetree *node)
{
    uint64_t priority = sizetree_priority(node);

    while (*root != NULL && sizetree_priority(*root) >= priority)
        root = sizetree_before(*root, node) ? &(*root)->right : &(*root)->left;
    sizetree_split(*root, node, &node->left, &node->right);
    *root = node;
}

void weir_sizetree_remove(weir_sizetree **root, const weir_sizetree *node)
{
    while (*root != node) root = sizetree_before(*root, node) ? &(*root)->right : &(*root)->left;
    *root = sizetree_join(node->left, node->right);
}

weir_sizetree *weir_sizetree_fit(weir_sizetree *root, uint64_t bytes)
{
    weir_sizetree *best = NULL;

    while (root != NULL) {
        if (root->bytes >= bytes) {
            best = root;
            root = root->left;
        } else {
            root = root->right;
        }
    }
    return best;
}
