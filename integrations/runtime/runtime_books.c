/* SPDX-License-Identifier: MIT */
/* The books of live blocks: a hash table by address. All calls are made with the device's lock. */
#include "runtime_internal.h"

#include <stdlib.h>
#include <string.h>

#define BOOKS_ROOM 1024

static size_t books_home(const weir_rt_books *books, uint64_t addr)
{
    uint64_t mixed = (addr >> 6) * UINT64_C(0x9E3779B97F4A7C15);
    return (size_t)(mixed >> 20) & (books->room - 1);
}

static void books_put(weir_rt_books *books, const weir_rt_block *block)
{
    size_t at = books_home(books, block->addr);
    while (books->slot[at].addr != 0) {
        at = (at + 1) & (books->room - 1);
    }
    books->slot[at] = *block;
    books->used++;
}

static bool books_grow(weir_rt_books *books)
{
    weir_rt_books larger = {.room = books->room == 0 ? BOOKS_ROOM : 2 * books->room};
    larger.slot = (weir_rt_block *)calloc(larger.room, sizeof(*larger.slot));
    if (!larger.slot) {
        return false;
    }
    for (size_t i = 0; i < books->room; i++) {
        if (books->slot[i].addr != 0) {
            books_put(&larger, &books->slot[i]);
        }
    }
    free(books->slot);
    *books = larger;
    return true;
}

bool weir_rt_books_add(weir_rt_books *books, const weir_rt_block *block)
{
    if (books->used + 1 > books->room / 4 * 3 && !books_grow(books)) {
        return false;
    }
    books_put(books, block);
    return true;
}

weir_rt_block *weir_rt_books_find(const weir_rt_books *books, uint64_t addr)
{
    if (books->room == 0 || addr == 0) {
        return NULL;
    }
    for (size_t at = books_home(books, addr); books->slot[at].addr != 0;
         at = (at + 1) & (books->room - 1)) {
        if (books->slot[at].addr == addr) {
            return &books->slot[at];
        }
    }
    return NULL;
}

/* Closes the gap at `hole`: what follows it and would not be found across it moves up. */
static void books_close(weir_rt_books *books, size_t hole)
{
    size_t mask = books->room - 1;
    for (size_t at = (hole + 1) & mask; books->slot[at].addr != 0; at = (at + 1) & mask) {
        size_t home = books_home(books, books->slot[at].addr);
        if (((at - home) & mask) >= ((at - hole) & mask)) {
            books->slot[hole] = books->slot[at];
            hole = at;
        }
    }
    memset(&books->slot[hole], 0, sizeof(books->slot[hole]));
}

bool weir_rt_books_take(weir_rt_books *books, uint64_t addr, weir_rt_block *block)
{
    weir_rt_block *found = weir_rt_books_find(books, addr);
    if (!found) {
        return false;
    }
    *block = *found;
    books->used--;
    books_close(books, (size_t)(found - books->slot));
    return true;
}
