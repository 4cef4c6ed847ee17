// SPDX-License-Identifier: MIT
// Bugs for compute-sanitizer to find, one a run, and a kernel without any: what a tool says of the
// suite counts only if it has just found its planted bug.
//   hw_planted oob | leak | uninit | race | barrier | clean
#include <cstdio>
#include <cstring>
#include <cuda_runtime.h>

static const int threads = 128;

__global__ void write_behind(int *data, int count)
{
    data[count] = 1;
}

__global__ void copy_first(const int *from, int *to)
{
    to[0] = from[0] > 7 ? 1 : 2;
}

__global__ void sum_in_a_race(int *out)
{
    __shared__ int sum[threads];
    sum[threadIdx.x] = (int)threadIdx.x;
    out[threadIdx.x] = sum[(threadIdx.x + 1) % threads]; // no barrier between
}

// Half of a warp waits for the other half, which has left.
__global__ void wait_for_nobody(int *out)
{
    if (threadIdx.x % 2 == 0) {
        __syncthreads();
    }
    out[threadIdx.x] = 1;
}

__global__ void sum(const int *in, int *out)
{
    __shared__ int part[threads];
    part[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    for (int half = threads / 2; half > 0; half /= 2) {
        if ((int)threadIdx.x < half) {
            part[threadIdx.x] += part[threadIdx.x + half];
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        out[0] = part[0];
    }
}

static int clean()
{
    int host[threads], result = 0, *in = nullptr, *out = nullptr;
    for (int i = 0; i < threads; i++) {
        host[i] = i;
    }
    cudaMalloc(&in, sizeof(host));
    cudaMalloc(&out, sizeof(int));
    cudaMemcpy(in, host, sizeof(host), cudaMemcpyHostToDevice);
    sum<<<1, threads>>>(in, out);
    cudaMemcpy(&result, out, sizeof(int), cudaMemcpyDeviceToHost);
    cudaFree(in);
    cudaFree(out);
    return result == threads * (threads - 1) / 2 ? 0 : 1;
}

int main(int argc, char **argv)
{
    const char *bug = argc > 1 ? argv[1] : "";
    int *data = nullptr, *other = nullptr;
    if (std::strcmp(bug, "clean") == 0) {
        return clean();
    }
    if (cudaMalloc(&data, threads * sizeof(int)) != cudaSuccess) {
        std::printf("skipped: no device\n");
        return 77;
    }
    cudaMalloc(&other, threads * sizeof(int));
    if (std::strcmp(bug, "oob") == 0) {
        write_behind<<<1, 1>>>(data, 1 << 20);
    } else if (std::strcmp(bug, "uninit") == 0) {
        copy_first<<<1, 1>>>(data, other);
    } else if (std::strcmp(bug, "race") == 0) {
        sum_in_a_race<<<1, threads>>>(data);
    } else if (std::strcmp(bug, "barrier") == 0) {
        wait_for_nobody<<<1, threads>>>(data);
    }
    cudaDeviceSynchronize();
    cudaFree(other);
    if (std::strcmp(bug, "leak") != 0) {
        cudaFree(data);
    }
    return 0;
}
