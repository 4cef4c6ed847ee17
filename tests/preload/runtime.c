/* SPDX-License-Identifier: MIT */
/*
 * A program that knows the CUDA runtime alone, linked into it or loaded with it. All that it sees is
 * what the runtime makes of the driver's answers.
 */
#include "check.h"
#include "fakecudart.h"

#include <dlfcn.h>

static uint64_t runtime_calls(const char *name)
{
    uint64_t (*calls)(const char *) = NULL;
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    void *found = library ? dlsym(library, "weir_fakecuda_calls") : NULL;
    CHECK(found != NULL);
    memcpy(&calls, &found, sizeof(found));
    return found ? calls(name) : 0;
}

static void check_memory(void)
{
    void *block = NULL;
    void *other = NULL;
    size_t left = 0;
    size_t total = 0;
    CHECK(cudaFree(NULL) == 0); /* what programs start the runtime with */
    CHECK(cudaMalloc(&block, MIB) == 0 && cudaMallocAsync(&other, MIB, NULL) == 0);
    CHECK(block && other && block != other);
    CHECK(cudaMemGetInfo(&left, &total) == 0 && total == 128 * MIB && left < total);
    CHECK(cudaFreeAsync(other, NULL) == 0 && cudaFree(block) == 0);
    CHECK(runtime_calls("cuMemAlloc_v2") == 0 && runtime_calls("cuMemFree_v2") == 0);
    CHECK(runtime_calls("cuMemAllocFromPoolAsync") == 0 && runtime_calls("cuMemFreeAsync") == 0);
    CHECK(runtime_calls("cuMemCreate") > 0);
}

static void check_errors(void)
{
    void *block = NULL;
    CHECK(cudaGetLastError() == 0);
    CHECK(cudaMalloc(&block, 256 * MIB) == 2 && block == NULL); /* cudaErrorMemoryAllocation */
    CHECK(cudaGetLastError() == 2 && cudaGetLastError() == 0);
    CHECK(cudaMallocAsync(&block, 256 * MIB, NULL) == 2 && cudaGetLastError() == 2);
}

static void check_reset(void)
{
    void *block = NULL;
    CHECK(cudaMalloc(&block, MIB) == 0);
    CHECK(cudaDeviceReset() == 0);
    CHECK(cudaMalloc(&block, MIB) == 0 && cudaFree(block) == 0);
}

int main(void)
{
    check_memory();
    check_errors();
    check_reset();
    return check_failed;
}
