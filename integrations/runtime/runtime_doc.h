/* SPDX-License-Identifier: MIT */
/*
 * A document of dicts, lists, texts and numbers, written as it is told: as JSON, or as a pickle of
 * protocol 2 in the few opcodes that pytorch.org/memory_viz reads. Lists go out in batches of at
 * most 1000, since its reader pushes each batch onto its stack at once.
 */
#ifndef WEIR_RUNTIME_DOC_H
#define WEIR_RUNTIME_DOC_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define WEIR_RT_DOC_DEPTH 8

typedef struct weir_rt_doc {
    FILE *file;
    bool json;
    unsigned depth;
    struct {
        bool list;
        uint64_t count;
    } open[WEIR_RT_DOC_DEPTH];
} weir_rt_doc;

void weir_rt_doc_begin(weir_rt_doc *doc, FILE *file, bool json);
void weir_rt_doc_end(weir_rt_doc *doc);

void weir_rt_doc_dict(weir_rt_doc *doc); /* until close */
void weir_rt_doc_list(weir_rt_doc *doc);
void weir_rt_doc_close(weir_rt_doc *doc);

/* In a dict, before each value. */
void weir_rt_doc_key(weir_rt_doc *doc, const char *key);

void weir_rt_doc_text(weir_rt_doc *doc, const char *text);
void weir_rt_doc_number(weir_rt_doc *doc, uint64_t number);
void weir_rt_doc_bool(weir_rt_doc *doc, bool yes);
void weir_rt_doc_pair(weir_rt_doc *doc, uint64_t first,
                      uint64_t second); /* a tuple; JSON: a list */

#endif
