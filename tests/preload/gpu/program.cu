// SPDX-License-Identifier: MIT
// A plain CUDA program, built with the runtime linked in and with the shared one, for gpu.sh. It
// checks what any program may count on, and where it is told so (argument "weir") that Weir serves it.
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <vector>

static int failed;

#define CHECK(what) \
    do { \
        if (!(what)) { \
            printf("%s:%d: not so: %s (%s)\n", __FILE__, __LINE__, #what, \
                   cudaGetErrorName(cudaPeekAtLastError())); \
            failed = 1; \
        } \
    } while (0)
#define OK(call) CHECK((call) == cudaSuccess)

static const size_t MIB = size_t(1) << 20;
static bool under_weir;
static size_t limit_mib;

// Whether a pointer is the first address of a block of Weir's.
static bool owned(const void *block)
{
    void *runtime = dlopen("libweir_runtime.so.1", RTLD_NOW | RTLD_NOLOAD);
    auto owns = runtime ? (int (*)(uint64_t))dlsym(runtime, "weir_runtime_owns") : nullptr;
    return owns && owns((uint64_t)(uintptr_t)block);
}

__global__ void fill(uint32_t *words, size_t count, uint32_t tag, int slowly)
{
    for (int i = 0; i < slowly; i++) __nanosleep(100000);
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
        words[i] = tag + (uint32_t)i;
}

__global__ void verify(const uint32_t *words, size_t count, uint32_t tag, unsigned long long *wrong)
{
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
        if (words[i] != tag + (uint32_t)i) atomicAdd(wrong, 1ull);
}

static void check_every_way_to_allocate()
{
    void *one, *two, *managed, *pinned;
    size_t pitch = 0;
    cudaPitchedPtr volume;
    OK(cudaMalloc(&one, 3 * MIB));
    CHECK(owned(one) == under_weir);
    OK(cudaFree(one));
    OK(cudaMallocAsync(&two, 3 * MIB, 0));
    CHECK(owned(two) == under_weir);
    OK(cudaFreeAsync(two, 0));
    OK(cudaMallocPitch(&one, &pitch, 1000, 100));
    CHECK(owned(one) == under_weir && pitch >= 1000);
    OK(cudaMemset2D(one, pitch, 1, 1000, 100));
    OK(cudaFree(one));
    OK(cudaMalloc3D(&volume, make_cudaExtent(1000, 10, 10)));
    CHECK(owned(volume.ptr) == under_weir);
    OK(cudaFree(volume.ptr));
    OK(cudaMallocManaged(&managed, MIB));
    CHECK(!owned(managed));
    OK(cudaFree(managed));
    OK(cudaMallocHost(&pinned, MIB));
    OK(cudaFreeHost(pinned));
    OK(cudaMalloc(&one, 0));
    OK(cudaFree(nullptr));
    OK(cudaDeviceSynchronize());
}

static void check_errors()
{
    size_t left = 0, total = 0;
    void *block = nullptr;
    cudaDeviceProp prop;
    OK(cudaMemGetInfo(&left, &total));
    OK(cudaGetDeviceProperties(&prop, 0));
    if (limit_mib) {
        CHECK(total == limit_mib * MIB && prop.totalGlobalMem == total && left <= total);
    }
    CHECK(cudaMalloc(&block, total + 64 * MIB) == cudaErrorMemoryAllocation);
    CHECK(cudaGetLastError() == cudaErrorMemoryAllocation && cudaGetLastError() == cudaSuccess);
    CHECK(cudaMallocAsync(&block, total + 64 * MIB, 0) == cudaErrorMemoryAllocation);
    CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
    OK(cudaMalloc(&block, MIB));
    OK(cudaFree(block));
    CHECK(cudaFree(block) == cudaErrorInvalidValue);
    (void)cudaGetLastError();
    CHECK(cudaFree((void *)0x1234500) == cudaErrorInvalidValue);
    (void)cudaGetLastError();
}

// Blocks freed by cudaFree under the work of non-blocking streams, and taken again for others.
static void check_order()
{
    const size_t count = 16 * MIB / 4;
    std::vector<cudaStream_t> streams(4);
    unsigned long long *wrong, host = 0;
    for (auto &stream : streams) OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    OK(cudaMalloc(&wrong, sizeof(*wrong)));
    OK(cudaMemset(wrong, 0, sizeof(*wrong)));
    OK(cudaDeviceSynchronize());
    for (uint32_t i = 0; i < 400; i++) {
        cudaStream_t stream = streams[i % streams.size()];
        uint32_t *words;
        bool ordered = i % 5 == 0;
        OK(ordered ? cudaMallocAsync(&words, count * 4, stream) : cudaMalloc(&words, count * 4));
        fill<<<64, 256, 0, stream>>>(words, count, i * 7919, i % 3 == 0);
        verify<<<64, 256, 0, stream>>>(words, count, i * 7919, wrong);
        OK(ordered ? cudaFreeAsync(words, stream) : cudaFree(words));
    }
    for (auto &stream : streams) {
        OK(cudaStreamSynchronize(stream));
        OK(cudaStreamDestroy(stream));
    }
    OK(cudaMemcpy(&host, wrong, sizeof(host), cudaMemcpyDeviceToHost));
    CHECK(host == 0);
    OK(cudaFree(wrong));
}

static void check_a_graph()
{
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    uint32_t *words, *other;
    unsigned long long *wrong, host = 0;
    const size_t count = MIB / 4;
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    OK(cudaMalloc(&words, count * 4));
    OK(cudaMalloc(&other, count * 4));
    OK(cudaMalloc(&wrong, sizeof(*wrong)));
    OK(cudaMemset(wrong, 0, sizeof(*wrong)));
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    fill<<<64, 256, 0, stream>>>(words, count, 5, 0);
    verify<<<64, 256, 0, stream>>>(words, count, 5, wrong);
    OK(cudaFree(other)); // while a capture runs
    OK(cudaStreamEndCapture(stream, &graph));
    OK(cudaGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < 3; i++) OK(cudaGraphLaunch(exec, stream));
    OK(cudaStreamSynchronize(stream));
    OK(cudaMemcpy(&host, wrong, sizeof(host), cudaMemcpyDeviceToHost));
    CHECK(host == 0);
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphDestroy(graph));
    OK(cudaFree(words));
    OK(cudaFree(wrong));
    OK(cudaStreamDestroy(stream));
}

static void check_sharing()
{
    void *block;
    cudaIpcMemHandle_t handle;
    OK(cudaMalloc(&block, 4 * MIB));
    cudaError_t error = cudaIpcGetMemHandle(&handle, block);
    CHECK(under_weir ? error == cudaErrorNotSupported : error == cudaSuccess);
    (void)cudaGetLastError();
    OK(cudaFree(block));
}

static void check_reset()
{
    void *block;
    OK(cudaMalloc(&block, MIB)); // and left
    OK(cudaDeviceReset());
    OK(cudaMalloc(&block, MIB));
    CHECK(owned(block) == under_weir);
    OK(cudaMemset(block, 1, MIB));
    OK(cudaDeviceSynchronize());
    OK(cudaFree(block));
}

int main(int argc, char **argv)
{
    under_weir = argc > 1 && strcmp(argv[1], "weir") == 0;
    limit_mib = argc > 2 ? (size_t)atoi(argv[2]) : 0;
    check_every_way_to_allocate();
    check_errors();
    check_order();
    check_a_graph();
    check_sharing();
    check_reset();
    return failed;
}
