/* SPDX-License-Identifier: MIT */
/* Shape of the range target: operations that come in pairs. */
#include "shapes.h"

static const uint8_t range_idioms[] = {
    30,  0, 100, 0,   140, 255, 9,   0, /* taken, given */
    80,  0, 60,  0,   80,  0,   60,  0, /* two of a size */
    30,  0, 90,  130, 188, 255, 128, 0, /* aligned; shortened */
    140, 0, 9,   0,   214, 0,   255, 0, /* given; of another set */
    242, 0, 200, 0,   238, 0,   50,  0, /* a span more; all walked */
};

const fuzz_shape weir_fuzz_shape = {.head = RANGE_HEAD,
                                    .record = RANGE_RECORD,
                                    .words = "",
                                    .idioms = range_idioms,
                                    .idioms_count = sizeof range_idioms / (2 * RANGE_RECORD),
                                    .idiom_records = 2};
