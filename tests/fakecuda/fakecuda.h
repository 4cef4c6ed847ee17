/* SPDX-License-Identifier: MIT */
/*
 * A stand-in for libcuda, so that the CUDA backend is tested on machines without a GPU.
 *
 * The library exports the driver's functions under their own names and behaves as the driver was
 * measured to behave; where the driver is lenient it is strict. Memory is the host device's
 * (backends/host): real pages, really remapped, and a thread for each stream, so work runs beside
 * its program. Kernels are known by their names: weir_fill, weir_verify and weir_spin.
 *
 * What is here controls it. Tests link with the library, or find these functions by dlsym.
 *
 * Breaches  are uses that the driver forbids, or that no correct program makes: a call without a
 *           context, a destroyed stream, memory taken away under unfinished work, a call that breaks
 *           a capture. The first is kept as a text.
 * Threads   Every call is safe from any thread, but for reset: it wants to be alone.
 */
#ifndef WEIR_FAKECUDA_H
#define WEIR_FAKECUDA_H

#include "driver.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weir_fakecuda_config {
    int devices;           /* 0: two; -1: none */
    int driver_version;    /* 13000 is 13.0; 0: the newest that this library can be */
    int major;             /* compute capability; 0: 9 */
    uint64_t memory_bytes; /* of each device; 0: 512 MiB */
    bool no_vmm, no_pools, no_posix_fd, no_rdma, no_dma_buf, no_peers; /* as attributes say */
    bool refuse_export; /* attributes promise it, cuMemCreate refuses it */
    bool refuse_rdma;
    bool odd_segments;  /* cuMemAlloc and pools give addresses that are only 512 bytes aligned */
    bool small_granule; /* virtual memory by 64 KiB instead of 2 MiB */
} weir_fakecuda_config;

/* Forgets everything and starts anew; NULL: all defaults. */
void weir_fakecuda_reset(const weir_fakecuda_config *config);

/* The path of this library, for weir_cuda_config.libcuda. */
const char *weir_fakecuda_path(void);

/* cuGetProcAddress no longer finds a function, given by the name it asks for. */
void weir_fakecuda_hide(const char *symbol);

/* The `kth` call from now (1: the next) of a function, by its exported name, answers `result` and
 * does nothing; with `forever` all later ones too. NULL: of any function, but those that name
 * errors. */
void weir_fakecuda_fail(const char *name, uint64_t kth, weir_cu_result result, bool forever);
/* The name of the call that failed last because it was asked to, NULL: none did; then forgets all
 * failures asked for. */
const char *weir_fakecuda_failed(void);

/* From now on every call that concerns a device answers `result`, and its work is dropped. `device`
 * -1: every call of all, those that name errors excepted. */
void weir_fakecuda_lose(int device, weir_cu_result result);

/* From now on every call answers WEIR_CU_DEINITIALIZED, as while a process ends. */
void weir_fakecuda_end(void);

/* Calls of a function since the reset, by its exported name; NULL: of all but those that name
 * errors. */
uint64_t weir_fakecuda_calls(const char *name);

/* The first breach, and how many there were; forget makes it none. NULL: none. */
const char *weir_fakecuda_breach(void);
uint64_t weir_fakecuda_breaches(void);
void weir_fakecuda_forgive(void);

/* What is not given back, contexts included; NULL: nothing. Until the next call. */
const char *weir_fakecuda_balance(void);

/* Work that lasts until weir_fakecuda_go, on a stream of the current context. */
weir_cu_result weir_fakecuda_hold(weir_cu_stream stream);
void weir_fakecuda_go(void);

/* Waits until all work on all devices is done, by no call of the driver. */
void weir_fakecuda_settle(void);

/* Reads and writes device memory as it is now. False: it is not mapped. */
bool weir_fakecuda_peek(uint64_t addr, void *to, size_t bytes);

/* What all driver's pools of a device hold, and what of it is in use. */
uint64_t weir_fakecuda_pool_reserved(int device);
uint64_t weir_fakecuda_pool_used(int device);

/* Bytes of a device that are taken, by whatever. */
uint64_t weir_fakecuda_held(int device);

/* The calling thread's capture mode and the depth of its stack of contexts: what the backend must
 * leave as it found it. */
int weir_fakecuda_mode(void);
unsigned weir_fakecuda_depth(void);

/* ------------------------------------------- functions of the driver that only programs call -- */

weir_cu_result cuCtxCreate_v2(weir_cu_context *context, unsigned flags, weir_cu_device device);
weir_cu_result cuCtxDestroy_v2(weir_cu_context context);
weir_cu_result cuCtxSetCurrent(weir_cu_context context);
weir_cu_result cuStreamBeginCapture_v2(weir_cu_stream stream, int mode);
weir_cu_result cuStreamEndCapture(weir_cu_stream stream, weir_cu_graph *graph);
weir_cu_result cuGraphInstantiateWithFlags(void **exec, weir_cu_graph graph,
                                           unsigned long long flags);
weir_cu_result cuGraphLaunch(void *exec, weir_cu_stream stream);
weir_cu_result cuGraphExecDestroy(void *exec);
weir_cu_result cuGraphDestroy(weir_cu_graph graph);

#ifdef __cplusplus
}
#endif

#endif
