/* SPDX-License-Identifier: MIT */
/*
 * The GPU as the race itself uses it, beside the contestants: the primary context of the first
 * device, streams, a kernel that keeps a stream busy and notes when it ran, and what the device
 * says is free. WEIR_CUDA_LIBRARY names another library than libcuda.so.1.
 */
#ifndef RACER_GPU_H
#define RACER_GPU_H

#include "driver.h"
#include "racer.h"

#define RACER_GPU_MARKS 512u

struct racer_gpu {
    weir_driver driver;
    weir_cu_device device;
    weir_cu_context context;
    weir_cu_module module;
    weir_cu_function spin;
    uint64_t marks;      /* on the device: begin and end of each spin, in ns of its clock */
    uint32_t marks_used; /* since racer_gpu_marks_clear */
    const char *libcuda; /* NULL: the driver's own */
};

/* False: nothing is open. The context is current on this thread. */
bool racer_gpu_open(racer_gpu *gpu, racer_why *why);
void racer_gpu_close(racer_gpu *gpu);

/* Makes the context current on another thread, too. */
bool racer_gpu_enter(racer_gpu *gpu);

/* A non-blocking stream, or NULL. */
void *racer_gpu_stream(racer_gpu *gpu);

/* Bytes of the device that are in use, by anyone. */
uint64_t racer_gpu_used(racer_gpu *gpu);
bool racer_gpu_sync(racer_gpu *gpu);

/* Loads the kernel, if that is not done. False where the driver refuses it. */
bool racer_gpu_ready(racer_gpu *gpu, racer_why *why);
/* Queues a kernel of one thread that runs for `ns`. */
bool racer_gpu_spin(racer_gpu *gpu, void *stream, uint64_t ns);
void racer_gpu_marks_clear(racer_gpu *gpu);
/* What the spins did that were queued since the last clear, which must have been on one stream. */
typedef struct racer_spins {
    uint64_t busy_ns; /* of all together */
    uint64_t gap_ns;  /* the longest between the end of one and the beginning of the next */
} racer_spins;

/* Waits for the device. The first `skip` gaps do not count. False where the device reports an
 * error. */
bool racer_gpu_spins(racer_gpu *gpu, uint32_t skip, racer_spins *spins);

#endif
