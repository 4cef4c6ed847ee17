/* SPDX-License-Identifier: MIT */
/*
 * The trial: steps that end at the first which fails, and whose parts are given back in the opposite
 * order.
 */
#define _POSIX_C_SOURCE 200809L

#include "selftest.h"

#ifdef WEIR_HAS_CUDA

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "cuda_work.h"
#include "platform.h"

enum { SELFTEST_TAG = 1, SELFTEST_OTHER_TAG = 2 };

#define SELFTEST_SHARED_BYTES (UINT64_C(2) << 20)

typedef struct selftest_run {
    weir_cuda *cuda;
    weir_selftest *result;
    weir_platform *platform;
    weir_pool *pool;
    weir_cuda_work *work;
    uint64_t native;
    weir_stream stream;
    weir_addr addr;
} selftest_run;

static bool selftest_is(selftest_run *run, const char *step, weir_status status)
{
    if (status == WEIR_OK) return true;
    return weir_fault_set(&run->result->why, "%s answered %s: %s (the driver's last error: %s)",
                          step, weir_status_name(status), weir_status_text(status),
                          weir_cuda_error(run->cuda));
}

static bool selftest_did(selftest_run *run, const char *step, bool did)
{
    return did ||
           weir_fault_set(&run->result->why, "%s failed: %s", step, weir_cuda_error(run->cuda));
}

static bool selftest_pool(selftest_run *run)
{
    weir_config config = {.size = sizeof config};

    run->platform = weir_platform_create(false);
    if (run->platform == NULL) return weir_fault_set(&run->result->why, "not enough host memory");
    config.ops = weir_cuda_ops(run->cuda);
    config.device_self = run->cuda;
    config.platform = run->platform;
    config.initial_bytes = WEIR_SELFTEST_BYTES;
    return selftest_is(run, "a pool of 64 MiB", weir_pool_create(&config, &run->pool));
}

static bool selftest_stream(selftest_run *run)
{
    weir_stream_desc desc = {.size = sizeof desc, .outlives = true};

    run->work = weir_cuda_work_create(run->cuda);
    if (!selftest_did(run, "loading kernels", run->work != NULL)) return false;
    run->native = weir_cuda_work_stream_create(run->work);
    if (!selftest_did(run, "making a stream", run->native != 0)) return false;
    desc.native = run->native;
    desc.unique = weir_cuda_work_stream_unique(run->work, run->native);
    return selftest_is(run, "attaching a stream",
                       weir_stream_attach(run->pool, &desc, &run->stream));
}

/* What was written is found, and something else is not. */
static bool selftest_words(selftest_run *run)
{
    weir_cuda_work *work = run->work;
    uint64_t wrong;

    if (!selftest_did(
            run, "a kernel that writes",
            weir_cuda_work_fill(work, run->native, run->addr, WEIR_SELFTEST_BYTES, SELFTEST_TAG)) ||
        !selftest_did(
            run, "a kernel that checks",
            weir_cuda_work_verify(work, run->native, run->addr, WEIR_SELFTEST_BYTES, SELFTEST_TAG)))
        return false;
    wrong = weir_cuda_work_errors(work);
    if (!selftest_did(run, "the work of the kernels", wrong != UINT64_MAX)) return false;
    if (wrong != 0)
        return weir_fault_set(&run->result->why,
                              "%" PRIu64 " words of 64 MiB were not as written; run a memory test "
                              "of the device",
                              wrong);
    if (!selftest_did(run, "a kernel that checks",
                      weir_cuda_work_verify(work, run->native, run->addr, SELFTEST_SHARED_BYTES,
                                            SELFTEST_OTHER_TAG)))
        return false;
    return weir_cuda_work_errors(work) != 0 ||
           weir_fault_set(&run->result->why, "the check found wrong words right");
}

static weir_status selftest_share(selftest_run *run, weir_addr addr, weir_cuda_share as,
                                  char *error, size_t bytes)
{
    weir_cuda_shared shared = {-1, 0, 0};
    weir_status status = weir_cuda_export(run->cuda, addr, SELFTEST_SHARED_BYTES, as, &shared);

    if (status == WEIR_OK) (void)close(shared.fd);
    else if (status != WEIR_UNSUPPORTED)
        (void)snprintf(error, bytes, "%s", weir_cuda_error(run->cuda));
    return status;
}

/* A refusal is no failure: Weir does without. */
static bool selftest_exports(selftest_run *run)
{
    weir_selftest *result = run->result;
    weir_request request = {.size = sizeof request, .bytes = SELFTEST_SHARED_BYTES};
    weir_addr addr;
    weir_status status;

    request.stream = run->stream;
    request.flags = WEIR_ONE_HANDLE | WEIR_PINNED;
    status = weir_alloc(run->pool, &request, &addr);
    if (!selftest_is(run, "a pinned block", status)) return false;
    result->export_fd = selftest_share(run, addr, WEIR_CUDA_FD, result->export_fd_error,
                                       sizeof result->export_fd_error);
    result->export_dma_buf =
        selftest_share(run, addr, WEIR_CUDA_DMA_BUF, result->export_dma_buf_error,
                       sizeof result->export_dma_buf_error);
    return selftest_is(run, "freeing a pinned block", weir_free(run->pool, addr, 0));
}

static bool selftest_steps(selftest_run *run)
{
    weir_status status;
    bool good;

    if (!selftest_pool(run) || !selftest_stream(run)) return false;
    status = weir_alloc_on(run->pool, run->stream, WEIR_SELFTEST_BYTES, &run->addr);
    if (!selftest_is(run, "a block of 64 MiB", status)) return false;
    good = selftest_words(run);
    return selftest_is(run, "freeing a block", weir_free(run->pool, run->addr, 0)) && good &&
           selftest_exports(run);
}

/* A pool that does not end is left as it is: its memory is better lost than used after its free. */
static bool selftest_end(selftest_run *run)
{
    weir_status status = run->pool == NULL ? WEIR_OK : weir_pool_destroy(run->pool);
    const char *left;

    if (run->work != NULL) weir_cuda_work_destroy(run->work);
    if (!selftest_is(run, "the end of the pool", status)) return false;
    if (run->platform != NULL) weir_platform_destroy(run->platform);
    left = weir_cuda_balance(run->cuda);
    return left == NULL || weir_fault_set(&run->result->why, "%s", left);
}

void weir_selftest_run(weir_cuda *cuda, weir_selftest *result)
{
    selftest_run run = {.cuda = cuda, .result = result};
    uint64_t start_ns = weir_clock_ns();
    bool good;

    memset(result, 0, sizeof *result);
    result->export_fd = result->export_dma_buf = WEIR_UNSUPPORTED;
    good = selftest_steps(&run);
    result->passed = selftest_end(&run) && good;
    result->took_us = (weir_clock_ns() - start_ns) / 1000;
}

#else

/* A translation unit has to declare something. */
typedef int selftest_left_out;

#endif
