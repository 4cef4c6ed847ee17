/* SPDX-License-Identifier: MIT */
/*
 * The shadow: what was last done to every physical byte.
 *
 * Owns        the nodes of one treap for each piece of physical memory, keyed by offset.
 * Invariants  Nodes of one treap do not overlap; bytes under no node were never written. A node's
 *             last work is ordered after all earlier work on its bytes, so knowing the last is
 *             enough.
 * Cost        Expected O(log n) for each set, n being the number of differing pieces, not of bytes;
 *             a set with the bounds of a node that is there changes that node in place.
 */
#include "sim_internal.h"

static uint32_t simshadow_random(weir_sim *sim)
{
    uint32_t x = sim->random;
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    sim->random = x;
    return x;
}

/* Makes sure that `count` nodes can be taken without failing, so that no set stops half way. */
static bool simshadow_room(weir_sim *sim, uint32_t count)
{
    weir_sim_table *table = &sim->node_table;
    return weir_sim_grow((void **)&sim->nodes, &table->capacity, table->count + count,
                         sizeof(*sim->nodes));
}

static uint32_t simshadow_take(weir_sim *sim, const weir_sim_node *value)
{
    weir_sim_table *table = &sim->node_table;
    uint32_t slot = table->free_head;
    if (slot) {
        table->free_head = sim->nodes[slot].left;
    } else {
        slot = table->count++;
    }
    sim->nodes[slot] = *value;
    sim->nodes[slot].left = 0;
    sim->nodes[slot].right = 0;
    sim->nodes[slot].priority = simshadow_random(sim);
    return slot;
}

static void simshadow_free_tree(weir_sim *sim, uint32_t root)
{
    while (root) {
        uint32_t right = sim->nodes[root].right;
        simshadow_free_tree(sim, sim->nodes[root].left);
        sim->nodes[root].left = sim->node_table.free_head;
        sim->node_table.free_head = root;
        root = right;
    }
}

/* Splits into nodes that start before `key` and the others. */
static void simshadow_split(weir_sim *sim, uint32_t root, uint64_t key, uint32_t *low,
                            uint32_t *high)
{
    if (root == 0) {
        *low = 0;
        *high = 0;
        return;
    }
    weir_sim_node *node = &sim->nodes[root];
    if (node->start < key) {
        *low = root;
        simshadow_split(sim, node->right, key, &node->right, high);
    } else {
        *high = root;
        simshadow_split(sim, node->left, key, low, &node->left);
    }
}

/* Joins two treaps; all of `low` lies before all of `high`. */
static uint32_t simshadow_join(weir_sim *sim, uint32_t low, uint32_t high)
{
    if (low == 0 || high == 0) {
        return low ? low : high;
    }
    if (sim->nodes[low].priority >= sim->nodes[high].priority) {
        sim->nodes[low].right = simshadow_join(sim, sim->nodes[low].right, high);
        return low;
    }
    sim->nodes[high].left = simshadow_join(sim, low, sim->nodes[high].left);
    return high;
}

/* The last node that starts at or before `key`, or 0. */
static uint32_t simshadow_floor(const weir_sim *sim, uint32_t root, uint64_t key)
{
    uint32_t found = 0;
    while (root) {
        const weir_sim_node *node = &sim->nodes[root];
        if (node->start <= key) {
            found = root;
            root = node->right;
        } else {
            root = node->left;
        }
    }
    return found;
}

/* Cuts a node that crosses `key` in two, so that a node ends or begins there. */
static void simshadow_cut(weir_sim *sim, uint32_t *root, uint64_t key)
{
    uint32_t crossing = simshadow_floor(sim, *root, key);
    if (!crossing || sim->nodes[crossing].start == key || sim->nodes[crossing].end <= key) {
        return;
    }
    weir_sim_node rest = sim->nodes[crossing];
    sim->nodes[crossing].end = key;
    rest.start = key;
    uint32_t low = 0;
    uint32_t high = 0;
    simshadow_split(sim, *root, key, &low, &high);
    *root = simshadow_join(sim, simshadow_join(sim, low, simshadow_take(sim, &rest)), high);
}

/* Replaces [start, end) by `value`, or by nothing. */
static bool simshadow_replace(weir_sim *sim, uint32_t *root, uint64_t start, uint64_t end,
                              const weir_sim_node *value)
{
    if (!simshadow_room(sim, 3)) {
        return false;
    }
    uint32_t low = 0;
    uint32_t middle = 0;
    uint32_t high = 0;
    simshadow_cut(sim, root, start);
    simshadow_cut(sim, root, end);
    simshadow_split(sim, *root, start, &low, &high);
    simshadow_split(sim, high, end, &middle, &high);
    simshadow_free_tree(sim, middle);
    if (value) {
        low = simshadow_join(sim, low, simshadow_take(sim, value));
    }
    *root = simshadow_join(sim, low, high);
    return true;
}

bool weir_sim_shadow_set(weir_sim *sim, uint32_t *root, const weir_sim_node *value)
{
    uint32_t slot = simshadow_floor(sim, *root, value->start);
    if (slot && sim->nodes[slot].start == value->start && sim->nodes[slot].end == value->end) {
        sim->nodes[slot].tag = value->tag;
        sim->nodes[slot].seq = value->seq;
        sim->nodes[slot].lane = value->lane;
        return true;
    }
    return simshadow_replace(sim, root, value->start, value->end, value);
}

bool weir_sim_shadow_clear(weir_sim *sim, uint32_t *root, uint64_t start, uint64_t end)
{
    return simshadow_replace(sim, root, start, end, NULL);
}

void weir_sim_shadow_drop(weir_sim *sim, uint32_t *root)
{
    simshadow_free_tree(sim, *root);
    *root = 0;
}

bool weir_sim_shadow_visit(weir_sim *sim, uint32_t root, uint64_t start, uint64_t end,
                           weir_sim_visit visit, void *context)
{
    while (root) {
        const weir_sim_node node = sim->nodes[root];
        if (node.end > start) {
            if (!weir_sim_shadow_visit(sim, node.left, start, end, visit, context)) {
                return false;
            }
            if (node.start >= end) {
                return true;
            }
            if (!visit(sim, &node, context)) {
                return false;
            }
        }
        root = node.start < end ? node.right : 0;
    }
    return true;
}
