/* SPDX-License-Identifier: MIT */
/* pages: spans, the map from granules to pieces, idle lists and sums, through its own header. */
#include "memory.h"
#include "pages.h"

#include <criterion/criterion.h>
#include <string.h>

#define SHIFT 16u
#define GRANULE (UINT64_C(1) << SHIFT)
#define BASE (UINT64_C(1) << 40)

typedef struct pages_rig {
    host_memory memory;
    weir_pages pages;
} pages_rig;

static void pages_open(pages_rig *rig, uint64_t granules)
{
    weir_host_memory_init(&rig->memory);
    weir_pages_init(&rig->pages, &rig->memory.platform, SHIFT);
    cr_assert_eq(weir_pages_span_add(&rig->pages, BASE, granules * GRANULE), WEIR_OK);
}

static void pages_sound(pages_rig *rig)
{
    const char *why = weir_pages_check(&rig->pages);
    cr_assert_null(why, "%s", why);
}

static void pages_close(pages_rig *rig)
{
    pages_sound(rig);
    weir_pages_fini(&rig->pages);
    cr_expect_eq(rig->memory.live_count, 0);
}

static uint32_t pages_piece(pages_rig *rig, uint32_t granules)
{
    uint32_t piece = weir_pages_piece_add(&rig->pages, granules);
    cr_assert_neq(piece, 0);
    weir_piece_get(&rig->pages, piece)->made = true;
    return piece;
}

static uint32_t pages_placed(pages_rig *rig, uint32_t granules, uint64_t at)
{
    uint32_t piece = pages_piece(rig, granules);
    cr_assert_eq(weir_pages_room(&rig->pages, BASE + at * GRANULE, granules * GRANULE), WEIR_OK);
    weir_pages_place(&rig->pages, piece, BASE + at * GRANULE);
    return piece;
}

Test(pages, a_placed_piece_is_found_under_each_of_its_granules)
{
    static pages_rig rig; /* large, and stacks can be small */
    pages_open(&rig, 5000);
    uint32_t piece = pages_placed(&rig, 8, 1020); /* over the seam of two leaves */
    for (uint64_t i = 0; i < 8; i++) {
        cr_expect_eq(weir_pages_at(&rig.pages, BASE + (1020 + i) * GRANULE), piece);
        cr_expect_eq(weir_pages_at(&rig.pages, BASE + (1021 + i) * GRANULE - 1), piece);
    }
    cr_expect_eq(weir_pages_at(&rig.pages, BASE + 1019 * GRANULE), 0);
    cr_expect_eq(weir_pages_at(&rig.pages, BASE + 1028 * GRANULE), 0);
    cr_expect_eq(weir_pages_at(&rig.pages, BASE + 4000 * GRANULE), 0, "a leaf that was never made");
    cr_expect_eq(weir_pages_at(&rig.pages, BASE - 1), 0);
    cr_expect_eq(weir_pages_at(&rig.pages, BASE + 5000 * GRANULE), 0);
    cr_expect_eq(weir_piece_bytes(&rig.pages, piece), 8 * GRANULE);
    pages_sound(&rig);
    weir_pages_displace(&rig.pages, piece);
    cr_expect_eq(weir_pages_at(&rig.pages, BASE + 1020 * GRANULE), 0);
    pages_close(&rig);
}

Test(pages, sums_follow_what_becomes_of_a_piece)
{
    static pages_rig rig; /* large, and stacks can be small */
    pages_open(&rig, 100);
    uint32_t a = pages_placed(&rig, 4, 0);
    uint32_t b = pages_piece(&rig, 2);
    cr_expect_eq(rig.pages.held_bytes, 6 * GRANULE);
    cr_expect_eq(rig.pages.held_count, 2);
    weir_pages_idle_push(&rig.pages, b);
    cr_expect_eq(rig.pages.idle_bytes, 2 * GRANULE);
    pages_sound(&rig);
    weir_pages_idle_take(&rig.pages, b);
    cr_expect_eq(rig.pages.idle_bytes, 0);
    weir_pages_lose(&rig.pages, b);
    cr_expect_eq(rig.pages.lost_bytes, 2 * GRANULE);
    weir_pages_displace(&rig.pages, a);
    weir_pages_piece_drop(&rig.pages, a);
    cr_expect_eq(rig.pages.held_bytes, 2 * GRANULE);
    cr_expect_eq(rig.pages.held_count, 1);
    cr_expect_eq(weir_pages_piece_add(&rig.pages, 1), a, "the record is not used again");
    pages_close(&rig);
}

Test(pages, idle_pieces_are_found_by_size)
{
    static const uint32_t sizes[] = {1, 3, 4, 7, 8, 31};
    static pages_rig rig; /* large, and stacks can be small */
    pages_open(&rig, 100);
    uint32_t piece[6];
    for (uint32_t i = 0; i < 6; i++) {
        piece[i] = pages_piece(&rig, sizes[i]);
        weir_pages_idle_push(&rig.pages, piece[i]);
    }
    cr_expect_eq(weir_pages_idle_below(&rig.pages, 0), 0);
    cr_expect_eq(weir_pages_idle_below(&rig.pages, 2), piece[0]);
    cr_expect_eq(weir_pages_idle_below(&rig.pages, 3), piece[1]);
    cr_expect_eq(weir_pages_idle_below(&rig.pages, 30), piece[4]);
    cr_expect_eq(weir_pages_idle_below(&rig.pages, UINT64_MAX), piece[5]);
    weir_pages_idle_take(&rig.pages, piece[2]); /* from behind another in its list */
    weir_pages_idle_take(&rig.pages, piece[3]);
    pages_close(&rig);
}

Test(pages, records_stay_where_they_are_while_chunks_are_added)
{
    static pages_rig rig; /* large, and stacks can be small */
    static const weir_piece *first[1000];
    pages_open(&rig, 100);
    for (uint32_t i = 0; i < 1000; i++) {
        uint32_t piece = pages_piece(&rig, i + 1);
        cr_assert_eq(piece, i + 1);
        first[i] = weir_piece_get(&rig.pages, piece);
    }
    for (uint32_t i = 0; i < 1000; i++) {
        cr_assert_eq((const void *)weir_piece_get(&rig.pages, i + 1), (const void *)first[i]);
        cr_assert_eq(first[i]->granules, i + 1);
    }
    pages_close(&rig);
}

Test(pages, spans_are_told_apart_and_dropped)
{
    static pages_rig rig; /* large, and stacks can be small */
    pages_open(&rig, 16);
    cr_assert_eq(weir_pages_span_add(&rig.pages, BASE + 16 * GRANULE, 8 * GRANULE), WEIR_OK);
    cr_assert_eq(weir_pages_span_add(&rig.pages, BASE - 64 * GRANULE, GRANULE), WEIR_OK);
    cr_expect_eq(weir_pages_span(&rig.pages, BASE + 15 * GRANULE)->base, BASE);
    cr_expect_eq(weir_pages_span(&rig.pages, BASE + 16 * GRANULE)->base, BASE + 16 * GRANULE);
    cr_expect_null(weir_pages_span(&rig.pages, BASE + 24 * GRANULE));
    uint32_t piece = pages_placed(&rig, 2, 20);
    weir_pages_span_drop(&rig.pages, BASE);
    cr_expect_null(weir_pages_span(&rig.pages, BASE));
    cr_expect_eq(weir_pages_at(&rig.pages, BASE + 21 * GRANULE), piece);
    pages_close(&rig);
}

Test(pages, spans_have_a_bound)
{
    static pages_rig rig; /* large, and stacks can be small */
    pages_open(&rig, 1);
    for (uint64_t i = 1; i < WEIR_SPANS_MAX; i++)
        cr_assert_eq(weir_pages_span_add(&rig.pages, BASE + i * GRANULE, GRANULE), WEIR_OK);
    cr_expect_eq(weir_pages_span_add(&rig.pages, BASE >> 1, GRANULE), WEIR_NO_METADATA);
    pages_close(&rig);
}

Test(pages, short_host_memory_is_told)
{
    static pages_rig rig; /* large, and stacks can be small */
    pages_open(&rig, 3000);
    weir_host_memory_fail(&rig.memory, 1, false);
    cr_expect_eq(weir_pages_span_add(&rig.pages, BASE << 1, GRANULE), WEIR_NO_METADATA);
    weir_host_memory_fail(&rig.memory, 2, false);
    cr_expect_eq(weir_pages_room(&rig.pages, BASE, 3000 * GRANULE), WEIR_NO_METADATA);
    weir_host_memory_fail(&rig.memory, 1, false);
    cr_expect_eq(weir_pages_piece_add(&rig.pages, 1), 0);
    cr_expect_eq(rig.pages.held_bytes, 0);
    cr_expect_eq(weir_pages_span_add(&rig.pages, BASE << 1, UINT64_MAX >> 4), WEIR_NO_METADATA);
    pages_close(&rig);
}

/* ------------------------------------------------------------------------------------ check -- */

static void pages_expect_broken(pages_rig *rig, const char *words)
{
    const char *why = weir_pages_check(&rig->pages);
    cr_expect(why != NULL && strncmp(why, words, 2) == 0, "%s: %s", words,
              why == NULL ? "not seen" : why);
}

Test(pages, check_finds_what_is_broken)
{
    static pages_rig rig; /* large, and stacks can be small */
    pages_open(&rig, 100);
    uint32_t a = pages_placed(&rig, 4, 0);
    uint32_t idle = pages_piece(&rig, 2);
    weir_pages_idle_push(&rig.pages, idle);
    uint32_t *entry = &rig.pages.span[0].leaf[0][2];
    pages_sound(&rig);
    *entry = 0;
    pages_expect_broken(&rig, "P1");
    *entry = a;
    rig.pages.span[0].leaf[0][50] = a;
    pages_expect_broken(&rig, "P1");
    rig.pages.span[0].leaf[0][50] = idle;
    pages_expect_broken(&rig, "P1");
    rig.pages.span[0].leaf[0][50] = 0;
    weir_piece_get(&rig.pages, idle)->state = WEIR_PIECE_BUSY;
    pages_expect_broken(&rig, "P2");
    weir_piece_get(&rig.pages, idle)->state = WEIR_PIECE_IDLE;
    rig.pages.idle[1] = 0;
    pages_expect_broken(&rig, "P2");
    rig.pages.idle[1] = idle;
    rig.pages.held_bytes += GRANULE;
    pages_expect_broken(&rig, "P3");
    rig.pages.held_bytes -= GRANULE;
    rig.pages.lost_bytes += GRANULE;
    pages_expect_broken(&rig, "P3");
    rig.pages.lost_bytes -= GRANULE;
    pages_close(&rig);
}
