/* SPDX-License-Identifier: MIT */
/*
 * The few calls of libcudart that PyTorch's allocator on Weir makes, for a machine without a GPU:
 * preloaded, so that PyTorch's library finds these first. One device, and no stream is capturing.
 */
int cudaGetDevice(int *device);
int cudaSetDevice(int device);
int cudaGetDeviceCount(int *count);
int cudaStreamIsCapturing(void *stream, int *status);
int cudaThreadExchangeStreamCaptureMode(int *mode);
int cudaEventCreateWithFlags(void **event, unsigned flags);
int cudaEventRecord(void *event, void *stream);
int cudaEventQuery(void *event);
int cudaEventDestroy(void *event);
int cudaGetLastError(void);

int cudaGetDevice(int *device)
{
    *device = 0;
    return 0;
}

int cudaSetDevice(int device)
{
    return device == 0 ? 0 : 101; /* invalid device */
}

int cudaGetDeviceCount(int *count)
{
    *count = 1;
    return 0;
}

int cudaStreamIsCapturing(void *stream, int *status)
{
    (void)stream;
    *status = 0;
    return 0;
}

int cudaThreadExchangeStreamCaptureMode(int *mode)
{
    *mode = 0;
    return 0;
}

/* Events that have passed at once. */
int cudaEventCreateWithFlags(void **event, unsigned flags)
{
    static int only;
    (void)flags;
    *event = &only;
    return 0;
}

int cudaEventRecord(void *event, void *stream)
{
    (void)event;
    (void)stream;
    return 0;
}

int cudaEventQuery(void *event)
{
    (void)event;
    return 0;
}

int cudaEventDestroy(void *event)
{
    (void)event;
    return 0;
}

int cudaGetLastError(void)
{
    return 0;
}
