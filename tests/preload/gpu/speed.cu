// SPDX-License-Identifier: MIT
// What a pair of calls costs, for gpu.sh: microseconds for cudaMalloc and cudaFree with a kernel in
// between, and for their ordered twins, at two sizes. The same program without Weir is the comparison.
#include <cuda_runtime.h>

#include <chrono>
#include <cstdio>

__global__ void touch(char *block)
{
    block[0] = 1;
}

template <typename Pair> static double pair_us(Pair pair)
{
    const int rounds = 2000;
    for (int i = 0; i < 100; i++) pair();
    cudaDeviceSynchronize();
    auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < rounds; i++) pair();
    cudaDeviceSynchronize();
    std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
    return took.count() / rounds;
}

int main()
{
    const size_t sizes[] = {size_t(64) << 10, size_t(64) << 20};
    for (size_t bytes : sizes) {
        double plain = pair_us([=] {
            char *block;
            cudaMalloc(&block, bytes);
            touch<<<1, 1>>>(block);
            cudaFree(block);
        });
        double ordered = pair_us([=] {
            char *block;
            cudaMallocAsync(&block, bytes, 0);
            touch<<<1, 1>>>(block);
            cudaFreeAsync(block, 0);
        });
        printf("%zu KiB: cudaMalloc+cudaFree %.2f us, cudaMallocAsync+cudaFreeAsync %.2f us\n",
               bytes >> 10, plain, ordered);
    }
    return cudaGetLastError() != cudaSuccess;
}
