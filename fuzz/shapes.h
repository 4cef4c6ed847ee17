/* SPDX-License-Identifier: MIT */
/* The lengths of heads and records, which a target and its shape (shape_NAME.c) both know. */
#ifndef WEIR_FUZZ_SHAPES_H
#define WEIR_FUZZ_SHAPES_H

#include "fuzz.h"

enum {
    WORLD_HEAD = 8, /* of pool and pages: settings of device and pool */
    POOL_RECORD = 5,
    PAGES_RECORD = 6,
    RANGE_HEAD = 2,
    RANGE_RECORD = 4,
    CONF_HEAD = 1,
    FILE_HEAD = 3
};

#endif
