/* SPDX-License-Identifier: MIT */
/* The picture: see range_picture.h. Every question is answered by a look at all cells. */
#include "range_picture.h"

#include "fuzz.h"

#include <string.h>

uint32_t weir_picture_run(const picture *of, uint32_t cell)
{
    uint32_t end = cell + 1;
    while (of->cell[end].kind != PICTURE_NONE && !of->cell[end].first) end++;
    return end - cell;
}

/* The bin of a size, by counting: 32 sizes one by one, then 32 steps to each power of two. */
static uint32_t picture_bin(uint32_t units)
{
    uint32_t bin = 0, least = 0, step = 1;
    while (units >= least + step) {
        least += step;
        bin++;
        if (bin >= 64 && bin % 32 == 0) step *= 2;
    }
    return bin;
}

static bool picture_fits(uint32_t cell, uint32_t run, uint32_t units, uint32_t align)
{
    /* Addresses are aligned as cells are: the first is at a large power of two. */
    uint32_t start = (cell + align - 1) / align * align;
    return start + units <= cell + run;
}

static bool picture_free_run(const picture *of, uint32_t cell, uint32_t set)
{
    const picture_cell *at = &of->cell[cell];
    return at->first && at->kind == PICTURE_FREE && at->set == set;
}

picture_best weir_picture_search(const picture *of, uint32_t set, uint32_t units, uint32_t align)
{
    picture_best best = {.shortest_in_bin = UINT32_MAX};
    uint32_t bin = picture_bin(units);
    uint8_t filed[512] = {0};
    for (uint32_t cell = 0; cell < PICTURE_CELLS; cell++) {
        if (!picture_free_run(of, cell, set)) continue;
        uint32_t run = weir_picture_run(of, cell), at = picture_bin(run);
        if (++filed[at] > WEIR_RANGE_LOOK) best.crowded = true;
        best.fits = best.fits || picture_fits(cell, run, units, align);
        best.above_bin = best.above_bin || at > bin;
        if (at != bin) continue;
        best.in_bin++;
        if (run < units) continue;
        best.in_bin_fits = true;
        if (run < best.shortest_in_bin) best.shortest_in_bin = run;
    }
    return best;
}

bool weir_picture_is_free(const picture *of, uint32_t cell, uint32_t units, uint32_t set)
{
    for (uint32_t i = cell; i < cell + units; i++) {
        const picture_cell *at = &of->cell[i];
        if (i >= PICTURE_CELLS || at->kind != PICTURE_FREE || at->set != set) return false;
        if (i != cell && at->first) return false;
    }
    return true;
}

/* Runs in the bin of the size or a longer one: what the cursors go through. */
uint32_t weir_picture_count(const picture *of, uint32_t set, uint32_t units)
{
    uint32_t count = 0;
    for (uint32_t cell = 0; cell < PICTURE_CELLS; cell++)
        count += picture_free_run(of, cell, set) &&
                 picture_bin(weir_picture_run(of, cell)) >= picture_bin(units);
    return count;
}

/* ------------------------------------------------------------------------------------- picks -- */

typedef bool (*picture_is)(const picture *of, uint32_t cell);

static bool picture_pick(const picture *of, uint8_t which, picture_is is, uint32_t *cell)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < PICTURE_CELLS; i++) count += is(of, i);
    uint32_t skip = fuzz_of(which, count);
    for (*cell = 0; *cell < PICTURE_CELLS; ++*cell)
        if (is(of, *cell) && skip-- == 0) return true;
    return false;
}

bool weir_picture_starts_live(const picture *of, uint32_t cell)
{
    return of->cell[cell].first && of->cell[cell].kind == PICTURE_LIVE;
}

static bool picture_starts_free(const picture *of, uint32_t cell)
{
    return of->cell[cell].first && of->cell[cell].kind == PICTURE_FREE;
}

static bool picture_is_whole(const picture *of, uint32_t cell)
{
    return of->cell[cell].span && of->cell[cell].kind == PICTURE_FREE &&
           of->cell[cell + weir_picture_run(of, cell)].kind == PICTURE_NONE;
}

bool weir_picture_live(const picture *of, uint8_t which, uint32_t *cell)
{
    return picture_pick(of, which, weir_picture_starts_live, cell);
}

bool weir_picture_some_free(const picture *of, uint8_t which, uint32_t *cell)
{
    return picture_pick(of, which, picture_starts_free, cell);
}

bool weir_picture_whole(const picture *of, uint8_t which, uint32_t *cell)
{
    return picture_pick(of, which, picture_is_whole, cell);
}

bool weir_picture_inside(const picture *of, uint32_t cell)
{
    return of->cell[cell].kind != PICTURE_NONE;
}

bool weir_picture_gap(const picture *of, uint32_t units, uint32_t *cell)
{
    uint32_t none = 0;
    for (uint32_t i = 0; i < PICTURE_CELLS; i++) {
        none = of->cell[i].kind == PICTURE_NONE ? none + 1 : 0;
        if (none == units + 2) {
            *cell = i - units;
            return true;
        }
    }
    return false;
}

/* ----------------------------------------------------------------------------------- changes -- */

static void picture_fill(picture *of, uint32_t cell, uint32_t units, picture_cell value)
{
    for (uint32_t i = 0; i < units; i++) {
        bool span = of->cell[cell + i].span;
        of->cell[cell + i] = value;
        of->cell[cell + i].first = i == 0;
        of->cell[cell + i].span = span;
    }
}

/* Joins the free run at `cell` with its neighbours of the same set; the latest point counts. */
static void picture_join(picture *of, uint32_t cell)
{
    picture_cell value = of->cell[cell];
    uint32_t from = cell, end = cell + weir_picture_run(of, cell);
    while (!of->cell[from].span && of->cell[from - 1].kind == PICTURE_FREE &&
           of->cell[from - 1].set == value.set) {
        from--;
        if (of->cell[from].point > value.point) value.point = of->cell[from].point;
    }
    while (!of->cell[end].span && of->cell[end].kind == PICTURE_FREE &&
           of->cell[end].set == value.set) {
        if (of->cell[end].point > value.point) value.point = of->cell[end].point;
        end++;
    }
    picture_fill(of, from, end - from, value);
}

void weir_picture_take(picture *of, uint32_t cell, uint32_t units)
{
    picture_cell value = of->cell[cell];
    if (of->cell[cell + units].kind == PICTURE_FREE) of->cell[cell + units].first = true;
    value.kind = PICTURE_LIVE;
    picture_fill(of, cell, units, value);
}

static void picture_free(picture *of, uint32_t cell, uint32_t units, uint64_t point)
{
    picture_cell value = {.kind = PICTURE_FREE, .set = of->cell[cell].set, .point = point};
    picture_fill(of, cell, units, value);
    picture_join(of, cell);
}

void weir_picture_give(picture *of, uint32_t cell, uint64_t point)
{
    picture_free(of, cell, weir_picture_run(of, cell), point);
}

void weir_picture_shrink(picture *of, uint32_t cell, uint32_t keep, uint64_t point)
{
    picture_free(of, cell + keep, weir_picture_run(of, cell) - keep, point);
}

void weir_picture_absorb(picture *of, uint32_t cell)
{
    uint32_t end = cell + weir_picture_run(of, cell);
    picture_fill(of, cell, end + weir_picture_run(of, end) - cell, of->cell[cell]);
}

void weir_picture_retag(picture *of, uint32_t cell, uint32_t set)
{
    uint32_t units = weir_picture_run(of, cell);
    for (uint32_t i = 0; i < units; i++) of->cell[cell + i].set = (uint8_t)set;
    picture_join(of, cell);
}

void weir_picture_span(picture *of, uint32_t cell, uint32_t units, uint32_t set)
{
    picture_fill(of, cell, units, (picture_cell){.kind = PICTURE_FREE, .set = (uint8_t)set});
    of->cell[cell].span = true;
}

void weir_picture_unspan(picture *of, uint32_t cell)
{
    memset(&of->cell[cell], 0, weir_picture_run(of, cell) * sizeof of->cell[0]);
}

/* ----------------------------------------------------------------------------------- compare -- */

static uint32_t picture_next(const picture *of, uint32_t at)
{
    while (at < PICTURE_CELLS && !of->cell[at].first) at++;
    return at;
}

uint32_t weir_picture_expect(const picture *of, uint32_t at, uint32_t cell, uint32_t units,
                             bool live, uint32_t set, uint64_t point)
{
    uint32_t wanted = picture_next(of, at);
    const picture_cell *there = &of->cell[wanted];
    FUZZ_SAY(wanted < PICTURE_CELLS, "the ring goes on too long");
    FUZZ_SAY(cell == wanted, "a node begins at %u that should at %u", cell, wanted);
    FUZZ_SAY(live == (there->kind == PICTURE_LIVE), "the node at %u is of another kind", cell);
    FUZZ_SAY(units == weir_picture_run(of, cell), "the node at %u has %u units", cell, units);
    FUZZ_SAY(set == there->set, "the node at %u is of another set", cell);
    if (!live) FUZZ_SAY(point == there->point, "the node at %u has another point", cell);
    return cell + units;
}

bool weir_picture_is_over(const picture *of, uint32_t at)
{
    return picture_next(of, at) == PICTURE_CELLS;
}
