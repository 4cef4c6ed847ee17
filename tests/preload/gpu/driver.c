/* SPDX-License-Identifier: MIT */
/* A program that is linked with libcuda and knows nothing else, for gpu.sh. */
#include <cuda.h>

#include <stdio.h>

static int failed;

#define OK(call) \
    do { \
        CUresult got = (call); \
        if (got != CUDA_SUCCESS) { \
            printf("%s:%d: %s is %d\n", __FILE__, __LINE__, #call, (int)got); \
            failed = 1; \
        } \
    } while (0)

int main(void)
{
    CUdevice device;
    CUcontext context;
    CUdeviceptr block[64];
    CUdeviceptr base = 0;
    size_t bytes = 0;
    unsigned word = 0;
    OK(cuInit(0));
    OK(cuDeviceGet(&device, 0));
    OK(cuDevicePrimaryCtxRetain(&context, device));
    OK(cuCtxSetCurrent(context));
    for (int i = 0; i < 64; i++) {
        OK(cuMemAlloc(&block[i], (size_t)(i + 1) << 16));
        OK(cuMemsetD32(block[i], (unsigned)i, (size_t)(i + 1) << 14));
    }
    for (int i = 0; i < 64; i++) {
        OK(cuMemcpyDtoH(&word, block[i] + ((size_t)i << 16), sizeof(word)));
        failed |= word != (unsigned)i;
        OK(cuMemGetAddressRange(&base, &bytes, block[i] + 256));
        failed |= base != block[i] || bytes < (size_t)(i + 1) << 16;
        OK(cuMemFree(block[i]));
    }
    if (cuMemFree(block[0]) != CUDA_ERROR_INVALID_VALUE) {
        printf("a second free is no error\n");
        failed = 1;
    }
    OK(cuDevicePrimaryCtxRelease(device));
    return failed;
}
