/* SPDX-License-Identifier: MIT */
/*
 * A program that loads the driver's library itself, as every CUDA runtime does, and asks it for the
 * rest. With an argument the library is loaded with RTLD_DEEPBIND, so that what it needs itself is not
 * looked for in what is preloaded.
 */
#define _GNU_SOURCE
#include "loaded.h"

typedef weir_cu_result (*procaddr_lookup_old)(const char *, void **, int, uint64_t);
typedef weir_cu_result (*procaddr_alloc)(uint64_t *, size_t);
typedef weir_cu_result (*procaddr_alloc_async)(uint64_t *, size_t, void *);
typedef weir_cu_result (*procaddr_free)(uint64_t);

static void *procaddr_ask(const loaded *driver, const char *name, int version, uint64_t flags)
{
    void *found = NULL;
    int presence = -1;
    CHECK_OK(driver->lookup(name, &found, version, flags, &presence));
    CHECK(found && presence == 0);
    return found;
}

static void check_that_memory_is_weirs(const loaded *driver, void *alloc, void *release)
{
    procaddr_alloc give = NULL;
    procaddr_free take = NULL;
    uint64_t calls = driver->calls("cuMemAlloc_v2");
    uint64_t addr = 0;
    memcpy(&give, &alloc, sizeof(give));
    memcpy(&take, &release, sizeof(take));
    CHECK_OK(give(&addr, MIB));
    CHECK_OK(take(addr));
    CHECK(addr && driver->calls("cuMemAlloc_v2") == calls);
}

static void check_lookups_by_name(const loaded *driver)
{
    void *library = driver->libcuda;
    (void)dlerror();
    check_that_memory_is_weirs(driver, dlsym(library, "cuMemAlloc_v2"),
                               dlsym(library, "cuMemFree_v2"));
    CHECK(dlerror() == NULL);
    CHECK(dlvsym(library, "cuMemAlloc_v2", "ANY") == dlsym(library, "cuMemAlloc_v2"));
    CHECK(dlsym(library, "cuMemAllocNothing") == NULL && dlerror() != NULL);
    CHECK(dlsym(library, "cuStreamBeginCaptureToGraph") == NULL); /* this driver has none */
    void *other = dlopen("libm.so.6", RTLD_NOW);
    CHECK(other && dlsym(other, "cos") != NULL && dlsym(other, "cuMemAlloc_v2") == NULL);
}

/* As the driver answers: the function of that version, or none. */
static void check_lookups_by_version(const loaded *driver)
{
    void *found = NULL;
    int presence = -1;
    void *alloc = procaddr_ask(driver, "cuMemAlloc", 3020, 0);
    CHECK(procaddr_ask(driver, "cuMemAlloc", 12000, 0) == alloc);
    check_that_memory_is_weirs(driver, alloc, procaddr_ask(driver, "cuMemFree", 3020, 0));
    CHECK(procaddr_ask(driver, "cuMemAllocAsync", 11020, 0) !=
          procaddr_ask(driver, "cuMemAllocAsync", 11020, 2));
    CHECK_OK(driver->lookup("cuMemAllocNothing", &found, 12000, 0, &presence));
    CHECK(found == NULL && presence == 1);
    CHECK_OK(driver->lookup("cuMemAlloc", &found, 2000, 0, &presence));
    CHECK(found == NULL && presence == 2);
}

/* A runtime asks for the function that answers it, too. */
static void check_that_lookups_lead_to_lookups(const loaded *driver)
{
    loaded next = *driver;
    procaddr_lookup_old old = NULL;
    void *found = procaddr_ask(driver, "cuGetProcAddress", 12000, 0);
    void *alloc = NULL;
    void *release = NULL;
    memcpy(&next.lookup, &found, sizeof(found));
    CHECK(next.lookup == driver->lookup);
    found = procaddr_ask(&next, "cuGetProcAddress", 11030, 0);
    memcpy(&old, &found, sizeof(old));
    CHECK_OK(old("cuMemAlloc", &alloc, 11030, 0));
    CHECK_OK(old("cuMemFree", &release, 11030, 0));
    check_that_memory_is_weirs(driver, alloc, release);
}

static void check_the_twins(const loaded *driver)
{
    procaddr_alloc_async give = NULL;
    weir_cu_result (*take)(uint64_t, void *) = NULL;
    uint64_t addr = 0;
    void *found = procaddr_ask(driver, "cuMemAllocAsync", 11020, 2);
    memcpy(&give, &found, sizeof(give));
    found = procaddr_ask(driver, "cuMemFreeAsync", 11020, 2);
    memcpy(&take, &found, sizeof(take));
    CHECK_OK(give(&addr, MIB, NULL));
    CHECK_OK(take(addr, NULL));
    CHECK(driver->more_calls("cuMemAllocAsync_ptsz") == 0);
    CHECK(driver->more_calls("cuMemFreeAsync_ptsz") == 0);
}

/* Stream 0 of a twin is the calling thread's: what was freed there is at once its own again, though
 * the legacy stream, stream 0 elsewhere, is not done. */
static void check_that_a_twin_means_the_thread(const loaded *driver)
{
    procaddr_alloc_async give = NULL;
    weir_cu_result (*take)(uint64_t, void *) = NULL;
    weir_cu_result (*hold)(weir_cu_stream) = NULL;
    void (*go)(void) = NULL;
    uint64_t addr = 0;
    uint64_t again = 0;
    void *found = procaddr_ask(driver, "cuMemAllocAsync", 11020, 2);
    memcpy(&give, &found, sizeof(give));
    found = procaddr_ask(driver, "cuMemFreeAsync", 11020, 2);
    memcpy(&take, &found, sizeof(take));
    loaded_find(driver->libcuda, "weir_fakecuda_hold", &hold);
    loaded_find(driver->libcuda, "weir_fakecuda_go", &go);
    CHECK_OK(give(&addr, MIB, NULL));
    CHECK_OK(hold(WEIR_CU_STREAM_LEGACY));
    CHECK_OK(take(addr, NULL));
    uint64_t waits = driver->calls("cuStreamWaitEvent");
    CHECK_OK(driver->alloc_async(&again, MIB, WEIR_CU_STREAM_PER_THREAD));
    CHECK(again == addr && driver->calls("cuStreamWaitEvent") == waits);
    go();
    CHECK_OK(driver->release(again));
}

int main(int argc, char **argv)
{
    (void)argv;
    loaded driver = loaded_open(argc > 1 ? RTLD_DEEPBIND : 0);
    check_lookups_by_name(&driver);
    check_lookups_by_version(&driver);
    check_that_lookups_lead_to_lookups(&driver);
    check_the_twins(&driver);
    check_that_a_twin_means_the_thread(&driver);
    CHECK(driver.breach() == NULL);
    return check_failed;
}
