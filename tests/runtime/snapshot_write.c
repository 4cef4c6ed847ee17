/* SPDX-License-Identifier: MIT */
/* A program whose memory snapshot.py looks at: snapshot_write OUT.pickle OUT.json. Prints the live
 * blocks, "address requested stack-line" each, as what both files must show. */
#define _GNU_SOURCE
#include "fakecuda.h"
#include "weir_runtime.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define BLOCKS 1500u

static int write_line;

static uint32_t write_stack(void *self)
{
    const char *file = "caf\xc3\xa9 \"quoted\"\t.py",
               *name = "latin \xe9, cut \xe2\x82, long \xe0\x80\x80";
    (void)self;
    return weir_runtime_stack(&file, &write_line, &name, 1);
}

static int write_all(const char *const path[2])
{
    static uint64_t addr[BLOCKS];
    for (unsigned i = 0; i < BLOCKS; i++) {
        write_line = (int)(i % 3) + 1;
        if (weir_runtime_alloc(0, 512 * (uint64_t)(i % 300 + 1), 0, &addr[i]) != 0) {
            return 1;
        }
    }
    for (unsigned i = 0; i < BLOCKS; i += 2) {
        if (weir_runtime_free(addr[i], 0) != 0) {
            return 1;
        }
    }
    for (unsigned i = 1; i < BLOCKS; i += 2) {
        printf("%" PRIu64 " %u %u\n", addr[i], 512 * (i % 300 + 1), i % 3 + 1);
    }
    return weir_runtime_snapshot(path[0]) != 0 || weir_runtime_snapshot(path[1]) != 0;
}

int main(int argc, char **argv)
{
    uint64_t none;
    if (argc != 3) {
        return 2;
    }
    setenv("WEIR_CUDA_LIBRARY", weir_fakecuda_path(), 1);
    weir_fakecuda_reset(NULL);
    weir_runtime_stack_from(write_stack, NULL);
    if (weir_runtime_history(100000) != 0 || weir_runtime_configure("limit_mb:256") != 0 ||
        weir_runtime_alloc(0, UINT64_C(1) << 30, 0, &none) == 0) {
        fprintf(stderr, "%s\n", weir_runtime_why());
        return 1;
    }
    int failed = write_all((const char *const[]){argv[1], argv[2]});
    if (failed != 0) {
        fprintf(stderr, "%s\n", weir_runtime_why());
    }
    return failed;
}
