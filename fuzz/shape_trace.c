/* SPDX-License-Identifier: MIT */
/* Shape of the target for trace files: lines, and parts of lines. */
#include "shapes.h"

static const char trace_words[] =
    "a,1,1024,0,5\nf,1,1024,0,6\nc,1,1024,0,7\na,2,512,0x7f00,8\nf,2,512,0x7f00,9\n# op,id\n"
    "a,\nf,\nc,\n,0,\n,1,\n0x\n18446744073709551615\n18446744073709551616\n4294967296\n,,\n\r\n";

const fuzz_shape weir_fuzz_shape = {.head = FILE_HEAD, .end = '\n', .words = trace_words};
