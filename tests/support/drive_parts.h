/* SPDX-License-Identifier: MIT */
/* What the files of drive share. */
#ifndef WEIR_TEST_DRIVE_PARTS_H
#define WEIR_TEST_DRIVE_PARTS_H

#include "drive.h"

uint64_t weir_drive_below(drive *of, uint64_t bound);

/* Makes stream `after` wait for all work queued so far on stream `before`. */
void weir_drive_order(drive *of, uint32_t before, uint32_t after);

/* Whether a pool may answer so with these options. */
bool weir_drive_allowed(const drive *of, weir_status status);

/* drive_blocks.c: one random call each. */
void weir_drive_alloc(drive *of);
void weir_drive_free(drive *of);
void weir_drive_work(drive *of);
void weir_drive_use(drive *of);
void weir_drive_pin(drive *of);
void weir_drive_resize(drive *of);
void weir_drive_wrong(drive *of);

#endif
