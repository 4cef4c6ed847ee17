/* SPDX-License-Identifier: MIT */
/*
 * What lies at the edges: another process that eats the card, sources that are strict, contexts that
 * are not ours, exports to another process.
 */
#define _GNU_SOURCE
#include "hw.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define BOUNDS_LEFT (2048 * HW_MIB)

/* --------------------------------------------------------------------------- another process -- */

/* Takes all but BOUNDS_LEFT by plain allocations, says so, and waits to be killed. */
static void bounds_eat(int told)
{
    weir_driver driver = hw_driver();
    weir_cu_context context = NULL;
    size_t free_bytes = 0, total_bytes = 0;
    uint64_t addr;
    driver.primary_retain(&context, 0);
    driver.context_push(context);
    while (driver.memory_info(&free_bytes, &total_bytes) == WEIR_CU_OK &&
           free_bytes > BOUNDS_LEFT + 256 * HW_MIB) {
        size_t piece = free_bytes - BOUNDS_LEFT;
        size_t most = (size_t)(16384 * HW_MIB);
        if (driver.alloc(&addr, piece < most ? piece : most) != WEIR_CU_OK) {
            break;
        }
    }
    if (write(told, "x", 1) != 1) {
        _exit(1);
    }
    for (;;) {
        pause();
    }
}

static bool bounds_fill(weir_pool *core, weir_stream name, weir_addr *blocks, unsigned *count,
                        unsigned most)
{
    weir_status status = WEIR_OK;
    while (*count < most && status == WEIR_OK) {
        status = weir_alloc_on(core, name, 64 * HW_MIB, &blocks[*count]);
        *count += status == WEIR_OK;
    }
    return status == WEIR_NO_MEMORY;
}

static void bounds_hunger(pid_t eater)
{
    weir_addr blocks[512];
    unsigned count = 0;
    weir_stream name;
    weir_oom oom = {.size = sizeof(oom)};
    weir_cuda_pool *pool = hw_pool("", false);
    weir_pool *core = weir_cuda_pool_core(pool);
    hw_must(weir_cuda_pool_stream(pool, NULL, &name), "a stream");
    bool refused = bounds_fill(core, name, blocks, &count, 512);
    hw_result("a card eaten by another process is NO_MEMORY", refused, "after %u blocks", count);
    hw_must(weir_oom_read(core, &oom), "the account");
    hw_result("and the account says that the device is short", oom.short_bytes > 0,
              "%" PRIu64 " short, %" PRIu64 " free on the device", oom.short_bytes,
              oom.device_free_bytes);
    hw_result("the pool is whole", weir_check(core, NULL) == WEIR_OK, "");
    kill(eater, SIGKILL);
    waitpid(eater, NULL, 0);
    usleep(500000);
    weir_addr more = 0;
    weir_status status = weir_alloc_on(core, name, 4096 * HW_MIB, &more);
    hw_result("when it is gone memory is there again", status == WEIR_OK, "%s",
              weir_status_name(status));
    if (status == WEIR_OK) {
        hw_must(weir_free(core, more, name), "a free");
    }
    while (count > 0) {
        hw_must(weir_free(core, blocks[--count], name), "a free");
    }
    hw_must(weir_cuda_pool_destroy(pool), "the pool's end");
}

/* The child starts before this process touches the driver. */
static void bounds_another_process(void)
{
    int told[2];
    char byte;
    if (pipe(told) != 0) {
        hw_skip("another process", "no pipe");
        return;
    }
    pid_t eater = fork();
    if (eater == 0) {
        close(told[0]);
        bounds_eat(told[1]);
    }
    close(told[1]);
    if (eater < 0 || read(told[0], &byte, 1) != 1) {
        hw_skip("another process", "it could not take the card's memory");
        return;
    }
    bounds_hunger(eater);
    close(told[0]);
}

/* -------------------------------------------------------------------------------- fallbacks -- */

static void bounds_sources(void)
{
    for (int source = WEIR_CONF_VMM; source <= WEIR_CONF_MALLOC; source++) {
        weir_cuda *cuda = hw_device((weir_conf_source)source, false);
        hw_result("a strict source is the one in use",
                  weir_cuda_source(cuda) == (weir_conf_source)source, "");
        weir_cuda_destroy(cuda);
    }
    char why[WEIR_CUDA_WHY_BYTES] = "";
    weir_cuda *none = NULL;
    weir_cuda_config config = {.size = sizeof(config), .device = 4711};
    config.libcuda = getenv("WEIR_CUDA_LIBRARY");
    weir_status status = weir_cuda_create(&config, &none, why);
    hw_result("a device that is not there is refused in a sentence",
              status == WEIR_UNSUPPORTED && strstr(why, "4711") != NULL, "%s", why);
}

/* ---------------------------------------------------------------------------------- contexts -- */

static void bounds_in_context(weir_cu_context context, const char *name)
{
    char why[WEIR_CUDA_WHY_BYTES] = "";
    weir_conf conf;
    weir_cuda_pool *pool = NULL;
    weir_addr addr = 0;
    weir_cuda_pool_config config = {.size = sizeof(config), .conf = &conf};
    weir_conf_init(&conf);
    config.device.size = sizeof(config.device);
    config.device.context = context;
    config.device.libcuda = getenv("WEIR_CUDA_LIBRARY");
    hw_must(weir_cuda_pool_create(&config, &pool, why), name);
    weir_cuda_work *work = hw_work(weir_cuda_pool_device(pool));
    uint64_t stream = weir_cuda_work_stream_create(work);
    void *named = (void *)(uintptr_t)stream;
    weir_status status = weir_cuda_pool_alloc(pool, HW_MIB, named, &addr);
    weir_cuda_work_fill(work, stream, addr, HW_MIB, 5);
    weir_cuda_work_verify(work, stream, addr, HW_MIB, 5);
    uint64_t wrong = weir_cuda_work_errors(work);
    hw_result(name, status == WEIR_OK && wrong == 0, "%s, %" PRIu64 " wrong words",
              weir_status_name(status), wrong);
    hw_must(weir_cuda_pool_free(pool, addr, named), "a free");
    weir_cuda_work_destroy(work);
    hw_must(weir_cuda_pool_destroy(pool), "the pool's end");
}

static void bounds_contexts(void)
{
    weir_driver driver = hw_driver();
    weir_cu_result (*create)(weir_cu_context *, unsigned, weir_cu_device) = NULL;
    weir_cu_result (*destroy)(weir_cu_context) = NULL;
    weir_cu_context second = NULL, old = NULL;
    hw_symbol(&driver, "cuCtxCreate_v2", &create);
    hw_symbol(&driver, "cuCtxDestroy_v2", &destroy);
    bounds_in_context(NULL, "the primary context, none current");
    hw_must(weir_driver_status(create(&second, 0, 0)), "a second context");
    bounds_in_context(NULL, "the primary context, another current");
    driver.context_pop(&old);
    bounds_in_context(second, "a context of the program");
    weir_cuda_pool *pool = hw_pool("", false);
    weir_cu_stream stream = NULL;
    weir_addr addr = 0;
    driver.context_push(second);
    driver.stream_create(&stream, WEIR_CU_STREAM_NON_BLOCKING);
    driver.context_pop(&old);
    weir_status status = weir_cuda_pool_alloc(pool, HW_MIB, stream, &addr);
    hw_result("a stream of another context is refused", status == WEIR_INVALID, "%s",
              weir_status_name(status));
    hw_must(weir_cuda_pool_destroy(pool), "the pool's end");
    driver.context_push(second);
    driver.stream_destroy(stream);
    driver.context_pop(&old);
    destroy(second);
}

/* ----------------------------------------------------------------------------------- exports -- */

/* The same memory through its descriptor, at another address. */
static void bounds_shared(weir_cuda_pool *pool, weir_cuda_work *work, weir_driver *driver,
                          const weir_cuda_shared *shared, uint64_t bytes)
{
    uint64_t handle = 0;
    weir_addr base = 0;
    weir_cu_context context = NULL, old = NULL;
    weir_cu_access access = {{WEIR_CU_LOCATION_DEVICE, 0}, WEIR_CU_ACCESS_READWRITE};
    (void)pool;
    driver->primary_retain(&context, 0);
    driver->context_push(context);
    weir_cu_result result =
        driver->import_handle(&handle, (void *)(intptr_t)shared->fd, WEIR_CU_HANDLE_POSIX_FD);
    hw_result("the descriptor can be imported", result == WEIR_CU_OK, "%s",
              weir_driver_error(driver, result));
    if (result == WEIR_CU_OK) {
        driver->va_reserve(&base, shared->handle_bytes, 0, 0, 0);
        driver->map(base, shared->handle_bytes, 0, handle, 0);
        driver->set_access(base, shared->handle_bytes, &access, 1);
        weir_cuda_work_verify(work, 1, base + shared->offset, bytes, 77);
        uint64_t wrong = weir_cuda_work_errors(work);
        hw_result("and shows the same bytes", wrong == 0, "%" PRIu64 " wrong words", wrong);
        driver->unmap(base, shared->handle_bytes);
        driver->va_free(base, shared->handle_bytes);
        driver->handle_release(handle);
    }
    driver->context_pop(&old);
    driver->primary_release(0);
}

static void bounds_exports(void)
{
    weir_driver driver = hw_driver();
    weir_cuda_pool *pool = hw_pool("", false);
    weir_cuda_work *work = hw_work(weir_cuda_pool_device(pool));
    weir_request request = {.size = sizeof(request), .bytes = 3 * HW_MIB, .flags = WEIR_ONE_HANDLE};
    weir_cuda_shared shared;
    weir_addr addr = 0;
    hw_must(weir_cuda_pool_stream(pool, NULL, &request.stream), "a stream");
    hw_must(weir_alloc(weir_cuda_pool_core(pool), &request, &addr), "a block in one handle");
    weir_cuda_work_fill(work, 1, addr, request.bytes, 77);
    (void)weir_cuda_work_sync(work);
    weir_status status = weir_cuda_pool_share(pool, addr, WEIR_CUDA_FD, &shared);
    if (status == WEIR_UNSUPPORTED) {
        hw_skip("exports", "the device can't");
    } else {
        hw_must(status, "an export");
        bounds_shared(pool, work, &driver, &shared, request.bytes);
        close(shared.fd);
    }
    status = weir_cuda_pool_share(pool, addr, WEIR_CUDA_DMA_BUF, &shared);
    if (status == WEIR_OK) {
        hw_result("a block is exported as a dma-buf", shared.fd >= 0, "");
        close(shared.fd);
    } else {
        hw_skip("dma-buf", "%s", weir_status_name(status));
    }
    hw_must(weir_cuda_pool_free(pool, addr, NULL), "a free");
    weir_cuda_work_destroy(work);
    hw_must(weir_cuda_pool_destroy(pool), "the pool's end");
}

int main(int argc, char **argv)
{
    (void)hw_quick(argc, argv);
    bounds_another_process();
    bounds_sources();
    bounds_contexts();
    bounds_exports();
    return hw_end();
}
