/* SPDX-License-Identifier: MIT */
/*
 * check: every invariant that can be seen from inside, by walks that share no code with what keeps
 * the sums. The numbers are those of docs/design.md.
 * Cost     O(nodes + granules under them + pieces).
 */
#include "pool.h"

typedef struct sums {
    uint64_t allocated, requested, blocks, pending, shadowed;
    uint64_t limbo, shadows;
} sums;

static bool node_backed(weir_pool *pool, uint32_t index)
{
    uint64_t granule = weir_pool_granule(pool);
    uint64_t end = weir_node_end(&pool->range, index);
    for (uint64_t at = pool->range.node[index].addr; at < end; at += granule)
        if (weir_pages_at(&pool->pages, at) == 0) return false;
    return end == pool->range.node[index].addr || weir_pages_at(&pool->pages, end - 1) != 0;
}

static bool node_unbacked(weir_pool *pool, uint32_t index)
{
    uint64_t granule = weir_pool_granule(pool);
    uint64_t end = weir_node_end(&pool->range, index);
    uint64_t probes = 0;
    for (uint64_t at = pool->range.node[index].addr; at < end && probes < 4096; at += granule) {
        if (weir_pages_at(&pool->pages, at) != 0) return false;
        probes++;
    }
    return true;
}

static const char *check_pool_node(weir_pool *pool, uint32_t index, sums *sum)
{
    const weir_node *node = &pool->range.node[index];
    uint64_t bytes = weir_node_bytes(&pool->range, index);
    bool hole = node->kind == WEIR_FREE && node->set == WEIR_SET_HOLES;
    switch ((weir_kind)node->kind) {
    case WEIR_LIVE:
        sum->blocks++;
        sum->allocated += bytes;
        sum->requested += bytes - node->low;
        if (bytes < bytes - node->low) return "1: a block is shorter than what was asked";
        break;
    case WEIR_LIMBO:
        sum->limbo++;
        sum->pending += bytes;
        break;
    case WEIR_SHADOW:
        sum->shadows++;
        sum->shadowed += bytes;
        return node_unbacked(pool, index) ? NULL : "P1: a shadow is a place";
    case WEIR_FREE:
        break;
    case WEIR_CLAIMED:
        return pool->running != 0 ? NULL : "a node is claimed and no call runs";
    case WEIR_UNUSED:
    case WEIR_LOST_RANGE:
    case WEIR_FENCE:
        return NULL;
    }
    if (hole) return node_unbacked(pool, index) ? NULL : "P1: a hole is backed";
    return node_backed(pool, index) ? NULL : "2: memory without a mapping";
}

static const char *check_sums(const weir_pool *pool, const sums *sum)
{
    if (sum->allocated != pool->allocated.current) return "5: allocated bytes";
    if (sum->requested != pool->requested.current) return "5: requested bytes";
    if (sum->blocks != pool->blocks.current) return "5: blocks";
    if (sum->pending != pool->pending.current || sum->limbo != pool->limbo.count)
        return "L1: pending bytes";
    if (sum->shadowed != pool->shadow_bytes || sum->shadows != pool->shadows.count)
        return pool->running != 0 ? NULL : "S1: shadowed bytes";
    return NULL;
}

static const char *check_classes(const weir_pool *pool)
{
    uint64_t blocks = 0;
    for (uint32_t i = 0; i < WEIR_SIZE_CLASSES; i++) blocks += pool->by_class[i].current;
    return blocks == pool->blocks.current ? NULL : "5: blocks by class";
}

static const char *pool_check(weir_pool *pool)
{
    sums sum = {0};
    const char *why = weir_range_check(&pool->range);
    if (why == NULL) why = weir_pages_check(&pool->pages);
    if (why == NULL) why = weir_order_check(&pool->order);
    for (uint32_t at = pool->range.node[0].next; at != 0 && why == NULL;
         at = pool->range.node[at].next)
        why = check_pool_node(pool, at, &sum);
    if (why == NULL) why = check_sums(pool, &sum);
    if (why == NULL) why = check_classes(pool);
    return why;
}

weir_status weir_check(weir_pool *pool, const char **why)
{
    if (pool == NULL) return WEIR_INVALID;
    weir_pool_lock(pool);
    const char *broken = pool_check(pool);
    weir_pool_unlock(pool);
    if (broken != NULL && why != NULL) *why = broken;
    return broken == NULL ? WEIR_OK : WEIR_CORRUPT;
}
