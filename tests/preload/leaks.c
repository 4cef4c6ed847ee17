/* SPDX-License-Identifier: MIT */
/*
 * A program that frees one block, leaves another, and frees a third while it exits. For run.sh too: the
 * leak report is of what was not freed when it exited.
 */
#include <stdlib.h>
#include <unistd.h>

#include "loaded.h"

static loaded driver;
static uint64_t kept;

/* Set before anything of Weir is loaded, so it runs last, as destructors of C++ do. */
static void leaks_at_exit(void)
{
    CHECK_OK(driver.release(kept));
    CHECK_RESULT(driver.release(kept), WEIR_CU_INVALID_VALUE);
    if (check_failed) {
        (void)fflush(stdout);
        _exit(1);
    }
}

int main(void)
{
    uint64_t freed = 0;
    uint64_t left = 0;
    CHECK(atexit(leaks_at_exit) == 0);
    driver = loaded_open(0);
    CHECK_OK(driver.alloc(&kept, 3 * MIB));
    CHECK_OK(driver.alloc(&freed, 5 * MIB));
    CHECK_OK(driver.alloc(&left, 7 * MIB));
    CHECK_OK(driver.release(freed));
    return check_failed;
}
