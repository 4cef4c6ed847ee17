/* SPDX-License-Identifier: MIT */
/*
 * The CUDA device that a command plays on, held from its first pass to its last: passes find the
 * driver started and the primary context made and current, as a program's is, and what the device is
 * can be told. Opened and closed by the thread that plays.
 */
#ifndef WEIR_CARD_H
#define WEIR_CARD_H

#include <stdint.h>

#include "fault.h"

enum { WEIR_CARD_NAME_BYTES = 128 };

typedef struct weir_card {
    char name[WEIR_CARD_NAME_BYTES];
    int driver_version;   /* of CUDA, as the driver counts: 13000 is 13.0; 0: no card is held */
    uint64_t free_bytes;  /* when it was opened */
    uint64_t total_bytes; /* as pools are told */
    void *held;
} weir_card;

/* Whether this command was built with the backend. */
bool weir_card_built(void);

/* The driver's library in place of libcuda.so.1: the environment's WEIR_CUDA_LIBRARY, for tests.
 * NULL where it is unset or empty, or the process runs with raised privileges. */
const char *weir_card_library(void);

/* False: *card is empty and *fault says what is missing and what to do. */
bool weir_card_open(weir_card *card, int device, weir_fault *fault);

/* Also of an empty one. */
void weir_card_close(weir_card *card);

#endif
