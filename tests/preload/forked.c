/* SPDX-License-Identifier: MIT */
/* Processes that fork: before they use the driver, and after, when only an error is right. */
#include "loaded.h"

#include <sys/wait.h>
#include <unistd.h>

static int forked_status(pid_t child)
{
    int status = -1;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int forked_fresh(void)
{
    loaded driver = loaded_open(0);
    uint64_t addr = 0;
    CHECK_OK(driver.alloc(&addr, MIB));
    CHECK_OK(driver.release(addr));
    CHECK(driver.calls("cuMemCreate") > 0 && driver.calls("cuMemAlloc_v2") == 0);
    return check_failed;
}

static int forked_late(const loaded *driver, uint64_t addr)
{
    uint64_t more = 0;
    size_t left = 0;
    size_t total = 0;
    CHECK_RESULT(driver->alloc(&more, MIB), WEIR_CU_NOT_INITIALIZED);
    CHECK_RESULT(driver->alloc_async(&more, MIB, NULL), WEIR_CU_NOT_INITIALIZED);
    CHECK_RESULT(driver->release(addr), WEIR_CU_NOT_INITIALIZED);
    CHECK_RESULT(driver->info(&left, &total), WEIR_CU_NOT_INITIALIZED);
    return check_failed;
}

int main(void)
{
    uint64_t addr = 0;
    pid_t child = fork();
    if (child == 0) {
        int failed = forked_fresh();
        (void)fflush(stdout);
        _exit(failed);
    }
    CHECK(forked_status(child) == 0);
    loaded driver = loaded_open(0);
    CHECK_OK(driver.alloc(&addr, MIB));
    child = fork();
    if (child == 0) {
        int failed = forked_late(&driver, addr);
        (void)fflush(stdout);
        _exit(failed);
    }
    CHECK(forked_status(child) == 0);
    CHECK_OK(driver.release(addr));
    return check_failed;
}
