/* SPDX-License-Identifier: MIT */
/*
 * driver: the part of the CUDA driver's interface that Weir calls, found in libcuda at run time.
 *
 * Types, numbers and names are those of NVIDIA's CUDA Driver API reference; tests/cuda/abi.c holds
 * them against cuda.h where the toolkit is installed. So the backend builds without the toolkit and
 * starts on machines without a driver.
 *
 * Owns       the library's handle and a table of functions, NULL where this driver has none.
 * Invariant  every function of the map marked `required` is there once weir_driver_open said OK.
 * Cost       one look-up for each function, once; then a call through a pointer.
 */
#ifndef WEIR_DRIVER_H
#define WEIR_DRIVER_H

#include "weir.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------- types -- */

typedef int weir_cu_result; /* WEIR_CU_... */
typedef int weir_cu_device; /* the ordinal as the driver counts, after CUDA_VISIBLE_DEVICES */
typedef void *weir_cu_context;
typedef void *weir_cu_stream; /* a handle, or one of WEIR_CU_STREAM_... */
typedef void *weir_cu_event;
typedef void *weir_cu_pool;
typedef void *weir_cu_graph;
typedef void *weir_cu_object; /* a user object */
typedef void *weir_cu_module;
typedef void *weir_cu_function;

#define WEIR_CU_STREAM_LEGACY ((weir_cu_stream)1)
#define WEIR_CU_STREAM_PER_THREAD ((weir_cu_stream)2)

/* Results that Weir tells apart. */
enum {
    WEIR_CU_OK = 0,
    WEIR_CU_INVALID_VALUE = 1,
    WEIR_CU_OUT_OF_MEMORY = 2,
    WEIR_CU_NOT_INITIALIZED = 3,
    WEIR_CU_DEINITIALIZED = 4, /* the process is ending */
    WEIR_CU_NO_DEVICE = 100,
    WEIR_CU_INVALID_DEVICE = 101,
    WEIR_CU_INVALID_CONTEXT = 201,
    WEIR_CU_ECC_UNCORRECTABLE = 214,
    WEIR_CU_NVLINK_UNCORRECTABLE = 220,
    WEIR_CU_CONTAINED = 226,
    WEIR_CU_INVALID_HANDLE = 400,
    WEIR_CU_NOT_FOUND = 500,
    WEIR_CU_NOT_READY = 600,
    WEIR_CU_ILLEGAL_ADDRESS = 700,
    WEIR_CU_LAUNCH_TIMEOUT = 702,
    WEIR_CU_CONTEXT_DESTROYED = 709,
    WEIR_CU_ASSERT = 710,
    WEIR_CU_HARDWARE_STACK = 714,
    WEIR_CU_ILLEGAL_INSTRUCTION = 715,
    WEIR_CU_MISALIGNED_ADDRESS = 716,
    WEIR_CU_INVALID_ADDRESS_SPACE = 717,
    WEIR_CU_INVALID_PC = 718,
    WEIR_CU_LAUNCH_FAILED = 719,
    WEIR_CU_TENSOR_MEMORY_LEAK = 721,
    WEIR_CU_NOT_PERMITTED = 800,
    WEIR_CU_NOT_SUPPORTED = 801,
    WEIR_CU_CAPTURE_UNSUPPORTED = 900,
    WEIR_CU_CAPTURE_INVALIDATED = 901,
    WEIR_CU_CAPTURE_ISOLATION = 905,
    WEIR_CU_CAPTURE_IMPLICIT = 906, /* the legacy stream, while a blocking stream is captured */
    WEIR_CU_CAPTURED_EVENT = 907
};

/* Attributes of a device. */
enum {
    WEIR_CU_ATTR_MULTIPROCESSORS = 16,
    WEIR_CU_ATTR_INTEGRATED = 18,
    WEIR_CU_ATTR_MAJOR = 75,
    WEIR_CU_ATTR_MINOR = 76,
    WEIR_CU_ATTR_VMM = 102,
    WEIR_CU_ATTR_POSIX_FD = 103,
    WEIR_CU_ATTR_RDMA_VMM = 110,
    WEIR_CU_ATTR_POOLS = 115,
    WEIR_CU_ATTR_RDMA = 116,
    WEIR_CU_ATTR_DMA_BUF = 124,
    WEIR_CU_ATTR_FABRIC = 128,
    WEIR_CU_ATTR_HOST_NUMA_VMM = 141
};

enum { WEIR_CU_ALLOCATION_PINNED = 1 };
enum { WEIR_CU_LOCATION_DEVICE = 1 };
enum { WEIR_CU_ACCESS_READWRITE = 3 };
enum { WEIR_CU_HANDLE_NONE = 0, WEIR_CU_HANDLE_POSIX_FD = 1 };
enum { WEIR_CU_RANGE_DMA_BUF = 1 };
enum { WEIR_CU_GRANULARITY_MINIMUM = 0 };
enum { WEIR_CU_EVENT_NO_TIMING = 2 };
enum { WEIR_CU_STREAM_NON_BLOCKING = 1 };
enum { WEIR_CU_CAPTURE_NONE = 0, WEIR_CU_CAPTURE_ACTIVE = 1, WEIR_CU_CAPTURE_BROKEN = 2 };
enum { WEIR_CU_MODE_GLOBAL = 0, WEIR_CU_MODE_THREAD_LOCAL = 1, WEIR_CU_MODE_RELAXED = 2 };
enum { WEIR_CU_OBJECT_NO_SYNC = 1 }; /* the destructor runs at any time, on any thread */
enum { WEIR_CU_GRAPH_MOVE_OBJECT = 1 };

/* Attributes of a driver's pool. */
enum {
    WEIR_CU_POOL_RELEASE_THRESHOLD = 4,
    WEIR_CU_POOL_RESERVED = 5,
    WEIR_CU_POOL_RESERVED_HIGH = 6,
    WEIR_CU_POOL_USED = 7,
    WEIR_CU_POOL_USED_HIGH = 8
};

typedef struct weir_cu_location {
    int type;
    int id;
} weir_cu_location;

typedef struct weir_cu_handle_prop {
    int type;
    int handle_types;
    weir_cu_location location;
    void *reserved_windows;
    struct {
        unsigned char compression;
        unsigned char rdma;
        unsigned short usage;
        unsigned char reserved[4];
    } flags;
} weir_cu_handle_prop;

typedef struct weir_cu_access {
    weir_cu_location location;
    int flags;
} weir_cu_access;

typedef struct weir_cu_pool_prop {
    int type;
    int handle_types;
    weir_cu_location location;
    void *reserved_windows;
    size_t max_bytes;
    unsigned short usage;
    unsigned char reserved[54];
} weir_cu_pool_prop;

typedef struct weir_cu_uuid {
    char bytes[16];
} weir_cu_uuid;

/* ------------------------------------------------------------------------------------- table -- */

/* X(name in the table, name for cuGetProcAddress, CUDA version whose signature this is, name that
 * the library exports, required, parameters). All return weir_cu_result. */
#define WEIR_DRIVER_MAP(X) \
    X(init, "cuInit", 2000, "cuInit", true, (unsigned flags)) \
    X(version, "cuDriverGetVersion", 2020, "cuDriverGetVersion", true, (int *version)) \
    X(error_name, "cuGetErrorName", 6000, "cuGetErrorName", true, \
      (weir_cu_result error, const char **name)) \
    X(device_count, "cuDeviceGetCount", 2000, "cuDeviceGetCount", true, (int *count)) \
    X(device_get, "cuDeviceGet", 2000, "cuDeviceGet", true, \
      (weir_cu_device * device, int ordinal)) \
    X(device_name, "cuDeviceGetName", 2000, "cuDeviceGetName", true, \
      (char *name, int bytes, weir_cu_device device)) \
    X(device_attribute, "cuDeviceGetAttribute", 2000, "cuDeviceGetAttribute", true, \
      (int *value, int attribute, weir_cu_device device)) \
    X(device_memory, "cuDeviceTotalMem", 3020, "cuDeviceTotalMem_v2", true, \
      (size_t * bytes, weir_cu_device device)) \
    X(device_uuid, "cuDeviceGetUuid", 9020, "cuDeviceGetUuid", false, \
      (weir_cu_uuid * uuid, weir_cu_device device)) \
    X(device_peer, "cuDeviceCanAccessPeer", 4000, "cuDeviceCanAccessPeer", true, \
      (int *can, weir_cu_device device, weir_cu_device peer)) \
    X(primary_retain, "cuDevicePrimaryCtxRetain", 7000, "cuDevicePrimaryCtxRetain", true, \
      (weir_cu_context * context, weir_cu_device device)) \
    X(primary_release, "cuDevicePrimaryCtxRelease", 11000, "cuDevicePrimaryCtxRelease_v2", true, \
      (weir_cu_device device)) \
    X(context_get, "cuCtxGetCurrent", 4000, "cuCtxGetCurrent", true, (weir_cu_context * context)) \
    X(context_push, "cuCtxPushCurrent", 4000, "cuCtxPushCurrent_v2", true, \
      (weir_cu_context context)) \
    X(context_pop, "cuCtxPopCurrent", 4000, "cuCtxPopCurrent_v2", true, \
      (weir_cu_context * context)) \
    X(context_device, "cuCtxGetDevice", 2000, "cuCtxGetDevice", true, (weir_cu_device * device)) \
    X(context_sync, "cuCtxSynchronize", 2000, "cuCtxSynchronize", true, (void)) \
    X(context_record, "cuCtxRecordEvent", 12050, "cuCtxRecordEvent", false, \
      (weir_cu_context context, weir_cu_event event)) \
    X(memory_info, "cuMemGetInfo", 3020, "cuMemGetInfo_v2", true, \
      (size_t * free_bytes, size_t * total_bytes)) \
    X(alloc, "cuMemAlloc", 3020, "cuMemAlloc_v2", true, (uint64_t * addr, size_t bytes)) \
    X(free, "cuMemFree", 3020, "cuMemFree_v2", true, (uint64_t addr)) \
    X(copy_async, "cuMemcpyDtoDAsync", 3020, "cuMemcpyDtoDAsync_v2", true, \
      (uint64_t to, uint64_t from, size_t bytes, weir_cu_stream stream)) \
    X(copy_to_host, "cuMemcpyDtoH", 3020, "cuMemcpyDtoH_v2", true, \
      (void *to, uint64_t from, size_t bytes)) \
    X(set_words, "cuMemsetD32", 3020, "cuMemsetD32_v2", true, \
      (uint64_t addr, unsigned value, size_t words)) \
    X(va_reserve, "cuMemAddressReserve", 10020, "cuMemAddressReserve", false, \
      (uint64_t * addr, size_t bytes, size_t align, uint64_t hint, unsigned long long flags)) \
    X(va_free, "cuMemAddressFree", 10020, "cuMemAddressFree", false, \
      (uint64_t addr, size_t bytes)) \
    X(handle_create, "cuMemCreate", 10020, "cuMemCreate", false, \
      (uint64_t * handle, size_t bytes, const weir_cu_handle_prop *prop, \
       unsigned long long flags)) \
    X(handle_release, "cuMemRelease", 10020, "cuMemRelease", false, (uint64_t handle)) \
    X(map, "cuMemMap", 10020, "cuMemMap", false, \
      (uint64_t addr, size_t bytes, size_t offset, uint64_t handle, unsigned long long flags)) \
    X(unmap, "cuMemUnmap", 10020, "cuMemUnmap", false, (uint64_t addr, size_t bytes)) \
    X(set_access, "cuMemSetAccess", 10020, "cuMemSetAccess", false, \
      (uint64_t addr, size_t bytes, const weir_cu_access *access, size_t count)) \
    X(granularity, "cuMemGetAllocationGranularity", 10020, "cuMemGetAllocationGranularity", false, \
      (size_t * bytes, const weir_cu_handle_prop *prop, int option)) \
    X(export_handle, "cuMemExportToShareableHandle", 10020, "cuMemExportToShareableHandle", false, \
      (void *shared, uint64_t handle, int type, unsigned long long flags)) \
    X(import_handle, "cuMemImportFromShareableHandle", 10020, "cuMemImportFromShareableHandle", \
      false, (uint64_t * handle, void *shared, int type)) \
    X(export_range, "cuMemGetHandleForAddressRange", 11070, "cuMemGetHandleForAddressRange", \
      false, (void *shared, uint64_t addr, size_t bytes, int type, unsigned long long flags)) \
    X(pool_create, "cuMemPoolCreate", 11020, "cuMemPoolCreate", false, \
      (weir_cu_pool * pool, const weir_cu_pool_prop *prop)) \
    X(pool_destroy, "cuMemPoolDestroy", 11020, "cuMemPoolDestroy", false, (weir_cu_pool pool)) \
    X(pool_set, "cuMemPoolSetAttribute", 11020, "cuMemPoolSetAttribute", false, \
      (weir_cu_pool pool, int attribute, void *value)) \
    X(pool_get, "cuMemPoolGetAttribute", 11020, "cuMemPoolGetAttribute", false, \
      (weir_cu_pool pool, int attribute, void *value)) \
    X(pool_trim, "cuMemPoolTrimTo", 11020, "cuMemPoolTrimTo", false, \
      (weir_cu_pool pool, size_t keep_bytes)) \
    X(pool_access, "cuMemPoolSetAccess", 11020, "cuMemPoolSetAccess", false, \
      (weir_cu_pool pool, const weir_cu_access *access, size_t count)) \
    X(alloc_async, "cuMemAllocFromPoolAsync", 11020, "cuMemAllocFromPoolAsync", false, \
      (uint64_t * addr, size_t bytes, weir_cu_pool pool, weir_cu_stream stream)) \
    X(free_async, "cuMemFreeAsync", 11020, "cuMemFreeAsync", false, \
      (uint64_t addr, weir_cu_stream stream)) \
    X(stream_create, "cuStreamCreate", 2000, "cuStreamCreate", true, \
      (weir_cu_stream * stream, unsigned flags)) \
    X(stream_destroy, "cuStreamDestroy", 4000, "cuStreamDestroy_v2", true, \
      (weir_cu_stream stream)) \
    X(stream_sync, "cuStreamSynchronize", 2000, "cuStreamSynchronize", true, \
      (weir_cu_stream stream)) \
    X(stream_wait, "cuStreamWaitEvent", 3020, "cuStreamWaitEvent", true, \
      (weir_cu_stream stream, weir_cu_event event, unsigned flags)) \
    X(stream_id, "cuStreamGetId", 12000, "cuStreamGetId", false, \
      (weir_cu_stream stream, unsigned long long *id)) \
    X(stream_context, "cuStreamGetCtx", 9020, "cuStreamGetCtx", true, \
      (weir_cu_stream stream, weir_cu_context * context)) \
    X(stream_capturing, "cuStreamIsCapturing", 10000, "cuStreamIsCapturing", true, \
      (weir_cu_stream stream, int *status)) \
    X(stream_capture, "cuStreamGetCaptureInfo", 11030, "cuStreamGetCaptureInfo_v2", false, \
      (weir_cu_stream stream, int *status, uint64_t *id, weir_cu_graph *graph, const void **nodes, \
       size_t *count)) \
    X(capture_mode, "cuThreadExchangeStreamCaptureMode", 10010, \
      "cuThreadExchangeStreamCaptureMode", true, (int *mode)) \
    X(object_create, "cuUserObjectCreate", 11030, "cuUserObjectCreate", false, \
      (weir_cu_object * object, void *self, void (*destroy)(void *self), unsigned count, \
       unsigned flags)) \
    X(object_release, "cuUserObjectRelease", 11030, "cuUserObjectRelease", false, \
      (weir_cu_object object, unsigned count)) \
    X(graph_retain, "cuGraphRetainUserObject", 11030, "cuGraphRetainUserObject", false, \
      (weir_cu_graph graph, weir_cu_object object, unsigned count, unsigned flags)) \
    X(event_create, "cuEventCreate", 2000, "cuEventCreate", true, \
      (weir_cu_event * event, unsigned flags)) \
    X(event_destroy, "cuEventDestroy", 4000, "cuEventDestroy_v2", true, (weir_cu_event event)) \
    X(event_record, "cuEventRecord", 2000, "cuEventRecord", true, \
      (weir_cu_event event, weir_cu_stream stream)) \
    X(event_query, "cuEventQuery", 2000, "cuEventQuery", true, (weir_cu_event event)) \
    X(event_sync, "cuEventSynchronize", 2000, "cuEventSynchronize", true, (weir_cu_event event)) \
    X(module_load, "cuModuleLoadData", 2000, "cuModuleLoadData", true, \
      (weir_cu_module * module, const void *image)) \
    X(module_unload, "cuModuleUnload", 2000, "cuModuleUnload", true, (weir_cu_module module)) \
    X(module_function, "cuModuleGetFunction", 2000, "cuModuleGetFunction", true, \
      (weir_cu_function * function, weir_cu_module module, const char *name)) \
    X(launch, "cuLaunchKernel", 4000, "cuLaunchKernel", true, \
      (weir_cu_function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, \
       unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes, \
       weir_cu_stream stream, void **parameters, void **extra))

typedef struct weir_driver {
    void *libcuda;
    int driver_version; /* 13000 is 13.0; 0: not opened */
#define WEIR_DRIVER_FIELD(name, symbol, since, exported, required, parameters) \
    weir_cu_result(*name) parameters;
    WEIR_DRIVER_MAP(WEIR_DRIVER_FIELD)
#undef WEIR_DRIVER_FIELD
} weir_driver;

#define WEIR_DRIVER_WHY_BYTES 256

/* Opens `path` (NULL: "libcuda.so.1"), fills the table and initialises the driver. UNSUPPORTED: no
 * driver, no device, or one too old, and `why` says it in one sentence; nothing is left open. */
weir_status weir_driver_open(weir_driver *driver, const char *path,
                             char why[WEIR_DRIVER_WHY_BYTES]);

/* Forgets the table and lets go of the library. */
void weir_driver_close(weir_driver *driver);

/* The driver's name for an error ("CUDA_ERROR_OUT_OF_MEMORY"); never NULL. */
const char *weir_driver_error(const weir_driver *driver, weir_cu_result error);

/* What an error means to a pool: OK, NO_MEMORY, LOST for those after which the context never works
 * again, UNSUPPORTED, else DEVICE. */
weir_status weir_driver_status(weir_cu_result error);

#ifdef __cplusplus
}
#endif

#endif
