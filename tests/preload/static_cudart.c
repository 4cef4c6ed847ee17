/* SPDX-License-Identifier: MIT */
/*
 * The real CUDA runtime, linked into the program. It takes no driver but NVIDIA's, so on the stand-in
 * it only gets so far as to refuse it; what is tested here is that it says the same under Weir, and
 * that its look-ups lead back to it. tests/preload/gpu.sh has it on a GPU.
 */
#include <cuda_runtime_api.h>

#include <stdio.h>

int main(void)
{
    void *block = NULL;
    int count = -1;
    cudaError_t error = cudaMalloc(&block, 1 << 20);
    cudaError_t last = cudaGetLastError();
    printf("%d %d %d %d\n", (int)error, (int)last, (int)cudaGetDeviceCount(&count), count);
    return error == cudaSuccess;
}
