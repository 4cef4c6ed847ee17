/* SPDX-License-Identifier: MIT */
/*
 * What driver.h declares, held against the toolkit's own header when this is compiled: numbers,
 * sizes and places of fields, and for each function that the version asked for is one that exists.
 * Nothing here runs. Built where the toolkit is found.
 */
#include "cuda_device.h"
#include "driver.h"

#include <cuda.h>
#include <cudaTypedefs.h>

#define ABI_SAME(ours, theirs) \
    _Static_assert((long long)(ours) == (long long)(theirs), #ours " is not " #theirs)

/* ------------------------------------------------------------------------------------- results -- */

ABI_SAME(WEIR_CU_OK, CUDA_SUCCESS);
ABI_SAME(WEIR_CU_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE);
ABI_SAME(WEIR_CU_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY);
ABI_SAME(WEIR_CU_NOT_INITIALIZED, CUDA_ERROR_NOT_INITIALIZED);
ABI_SAME(WEIR_CU_DEINITIALIZED, CUDA_ERROR_DEINITIALIZED);
ABI_SAME(WEIR_CU_NO_DEVICE, CUDA_ERROR_NO_DEVICE);
ABI_SAME(WEIR_CU_INVALID_DEVICE, CUDA_ERROR_INVALID_DEVICE);
ABI_SAME(WEIR_CU_INVALID_CONTEXT, CUDA_ERROR_INVALID_CONTEXT);
ABI_SAME(WEIR_CU_ECC_UNCORRECTABLE, CUDA_ERROR_ECC_UNCORRECTABLE);
ABI_SAME(WEIR_CU_NVLINK_UNCORRECTABLE, CUDA_ERROR_NVLINK_UNCORRECTABLE);
ABI_SAME(WEIR_CU_CONTAINED, CUDA_ERROR_CONTAINED);
ABI_SAME(WEIR_CU_INVALID_HANDLE, CUDA_ERROR_INVALID_HANDLE);
ABI_SAME(WEIR_CU_NOT_FOUND, CUDA_ERROR_NOT_FOUND);
ABI_SAME(WEIR_CU_NOT_READY, CUDA_ERROR_NOT_READY);
ABI_SAME(WEIR_CU_ILLEGAL_ADDRESS, CUDA_ERROR_ILLEGAL_ADDRESS);
ABI_SAME(WEIR_CU_LAUNCH_TIMEOUT, CUDA_ERROR_LAUNCH_TIMEOUT);
ABI_SAME(WEIR_CU_CONTEXT_DESTROYED, CUDA_ERROR_CONTEXT_IS_DESTROYED);
ABI_SAME(WEIR_CU_ASSERT, CUDA_ERROR_ASSERT);
ABI_SAME(WEIR_CU_HARDWARE_STACK, CUDA_ERROR_HARDWARE_STACK_ERROR);
ABI_SAME(WEIR_CU_ILLEGAL_INSTRUCTION, CUDA_ERROR_ILLEGAL_INSTRUCTION);
ABI_SAME(WEIR_CU_MISALIGNED_ADDRESS, CUDA_ERROR_MISALIGNED_ADDRESS);
ABI_SAME(WEIR_CU_INVALID_ADDRESS_SPACE, CUDA_ERROR_INVALID_ADDRESS_SPACE);
ABI_SAME(WEIR_CU_INVALID_PC, CUDA_ERROR_INVALID_PC);
ABI_SAME(WEIR_CU_LAUNCH_FAILED, CUDA_ERROR_LAUNCH_FAILED);
ABI_SAME(WEIR_CU_TENSOR_MEMORY_LEAK, CUDA_ERROR_TENSOR_MEMORY_LEAK);
ABI_SAME(WEIR_CU_NOT_PERMITTED, CUDA_ERROR_NOT_PERMITTED);
ABI_SAME(WEIR_CU_NOT_SUPPORTED, CUDA_ERROR_NOT_SUPPORTED);
ABI_SAME(WEIR_CU_CAPTURE_UNSUPPORTED, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
ABI_SAME(WEIR_CU_CAPTURE_INVALIDATED, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
ABI_SAME(WEIR_CU_CAPTURE_ISOLATION, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
ABI_SAME(WEIR_CU_CAPTURE_IMPLICIT, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
ABI_SAME(WEIR_CU_CAPTURED_EVENT, CUDA_ERROR_CAPTURED_EVENT);

/* ---------------------------------------------------------------------------- attributes, flags -- */

ABI_SAME(WEIR_CU_ATTR_MULTIPROCESSORS, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
ABI_SAME(WEIR_CU_ATTR_INTEGRATED, CU_DEVICE_ATTRIBUTE_INTEGRATED);
ABI_SAME(WEIR_CU_ATTR_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
ABI_SAME(WEIR_CU_ATTR_MINOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
ABI_SAME(WEIR_CU_ATTR_VMM, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
ABI_SAME(WEIR_CU_ATTR_POSIX_FD, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
ABI_SAME(WEIR_CU_ATTR_RDMA_VMM, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED);
ABI_SAME(WEIR_CU_ATTR_POOLS, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED);
ABI_SAME(WEIR_CU_ATTR_RDMA, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED);
ABI_SAME(WEIR_CU_ATTR_DMA_BUF, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED);
ABI_SAME(WEIR_CU_ATTR_FABRIC, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED);
ABI_SAME(WEIR_CU_ATTR_HOST_NUMA_VMM,
         CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);

ABI_SAME(WEIR_CU_ALLOCATION_PINNED, CU_MEM_ALLOCATION_TYPE_PINNED);
ABI_SAME(WEIR_CU_LOCATION_DEVICE, CU_MEM_LOCATION_TYPE_DEVICE);
ABI_SAME(WEIR_CU_ACCESS_READWRITE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
ABI_SAME(WEIR_CU_HANDLE_NONE, CU_MEM_HANDLE_TYPE_NONE);
ABI_SAME(WEIR_CU_HANDLE_POSIX_FD, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
ABI_SAME(WEIR_CU_RANGE_DMA_BUF, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD);
ABI_SAME(WEIR_CU_GRANULARITY_MINIMUM, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
ABI_SAME(WEIR_CU_EVENT_NO_TIMING, CU_EVENT_DISABLE_TIMING);
ABI_SAME(WEIR_CU_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING);
ABI_SAME(WEIR_CU_CAPTURE_NONE, CU_STREAM_CAPTURE_STATUS_NONE);
ABI_SAME(WEIR_CU_CAPTURE_ACTIVE, CU_STREAM_CAPTURE_STATUS_ACTIVE);
ABI_SAME(WEIR_CU_CAPTURE_BROKEN, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
ABI_SAME(WEIR_CU_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_GLOBAL);
ABI_SAME(WEIR_CU_MODE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
ABI_SAME(WEIR_CU_MODE_RELAXED, CU_STREAM_CAPTURE_MODE_RELAXED);
ABI_SAME(WEIR_CU_OBJECT_NO_SYNC, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
ABI_SAME(WEIR_CU_GRAPH_MOVE_OBJECT, CU_GRAPH_USER_OBJECT_MOVE);
ABI_SAME(WEIR_CU_POOL_RELEASE_THRESHOLD, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD);
ABI_SAME(WEIR_CU_POOL_RESERVED, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
ABI_SAME(WEIR_CU_POOL_RESERVED_HIGH, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH);
ABI_SAME(WEIR_CU_POOL_USED, CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
ABI_SAME(WEIR_CU_POOL_USED_HIGH, CU_MEMPOOL_ATTR_USED_MEM_HIGH);

/* ------------------------------------------------------------------------------------- structs -- */

#define ABI_SIZE(ours, theirs) ABI_SAME(sizeof(ours), sizeof(theirs))
#define ABI_FIELD(ours, field, theirs, other) \
    ABI_SAME(offsetof(ours, field), offsetof(theirs, other)); \
    ABI_SAME(sizeof(((ours *)0)->field), sizeof(((theirs *)0)->other))

ABI_SIZE(weir_cu_result, CUresult);
ABI_SIZE(weir_cu_device, CUdevice);
ABI_SIZE(weir_cu_context, CUcontext);
ABI_SIZE(weir_cu_stream, CUstream);
ABI_SIZE(weir_cu_event, CUevent);
ABI_SIZE(weir_cu_pool, CUmemoryPool);
ABI_SIZE(weir_cu_graph, CUgraph);
ABI_SIZE(weir_cu_object, CUuserObject);
ABI_SIZE(weir_cu_module, CUmodule);
ABI_SIZE(weir_cu_function, CUfunction);
ABI_SIZE(uint64_t, CUdeviceptr);
ABI_SIZE(uint64_t, CUmemGenericAllocationHandle);
ABI_SIZE(uint64_t, cuuint64_t);
ABI_SIZE(int, CUmemAllocationHandleType);
ABI_SIZE(int, CUdevice_attribute);
ABI_SIZE(int, CUmemPool_attribute);
ABI_SIZE(int, CUstreamCaptureStatus);
ABI_SIZE(int, CUstreamCaptureMode);
ABI_SIZE(int, CUmemRangeHandleType);
ABI_SIZE(int, CUmemAllocationGranularity_flags);
ABI_SIZE(int, CUdriverProcAddressQueryResult);

ABI_SIZE(weir_cu_location, CUmemLocation);
ABI_FIELD(weir_cu_location, type, CUmemLocation, type);
ABI_FIELD(weir_cu_location, id, CUmemLocation, id);

ABI_SIZE(weir_cu_handle_prop, CUmemAllocationProp);
ABI_FIELD(weir_cu_handle_prop, type, CUmemAllocationProp, type);
ABI_FIELD(weir_cu_handle_prop, handle_types, CUmemAllocationProp, requestedHandleTypes);
ABI_FIELD(weir_cu_handle_prop, location, CUmemAllocationProp, location);
ABI_FIELD(weir_cu_handle_prop, reserved_windows, CUmemAllocationProp, win32HandleMetaData);
ABI_FIELD(weir_cu_handle_prop, flags.compression, CUmemAllocationProp, allocFlags.compressionType);
ABI_FIELD(weir_cu_handle_prop, flags.rdma, CUmemAllocationProp, allocFlags.gpuDirectRDMACapable);
ABI_FIELD(weir_cu_handle_prop, flags.usage, CUmemAllocationProp, allocFlags.usage);
ABI_FIELD(weir_cu_handle_prop, flags.reserved, CUmemAllocationProp, allocFlags.reserved);

ABI_SIZE(weir_cu_access, CUmemAccessDesc);
ABI_FIELD(weir_cu_access, location, CUmemAccessDesc, location);
ABI_FIELD(weir_cu_access, flags, CUmemAccessDesc, flags);

ABI_SIZE(weir_cu_pool_prop, CUmemPoolProps);
ABI_FIELD(weir_cu_pool_prop, type, CUmemPoolProps, allocType);
ABI_FIELD(weir_cu_pool_prop, handle_types, CUmemPoolProps, handleTypes);
ABI_FIELD(weir_cu_pool_prop, location, CUmemPoolProps, location);
ABI_FIELD(weir_cu_pool_prop, reserved_windows, CUmemPoolProps, win32SecurityAttributes);
ABI_FIELD(weir_cu_pool_prop, max_bytes, CUmemPoolProps, maxSize);
ABI_FIELD(weir_cu_pool_prop, usage, CUmemPoolProps, usage);

ABI_SIZE(weir_cu_uuid, CUuuid);

/* ----------------------------------------------------------------------------------- functions -- */

/* A function of driver.h's table, and the version of its signature: there is a type of that name. */
#define ABI_FUNCTION(field, symbol, version) \
    enum { abi_version_of_##field = (version) + 0 * sizeof(PFN_##symbol##_v##version) }

ABI_FUNCTION(init, cuInit, 2000);
ABI_FUNCTION(version, cuDriverGetVersion, 2020);
ABI_FUNCTION(error_name, cuGetErrorName, 6000);
ABI_FUNCTION(device_count, cuDeviceGetCount, 2000);
ABI_FUNCTION(device_get, cuDeviceGet, 2000);
ABI_FUNCTION(device_name, cuDeviceGetName, 2000);
ABI_FUNCTION(device_attribute, cuDeviceGetAttribute, 2000);
ABI_FUNCTION(device_memory, cuDeviceTotalMem, 3020);
ABI_FUNCTION(device_uuid, cuDeviceGetUuid, 9020);
ABI_FUNCTION(device_peer, cuDeviceCanAccessPeer, 4000);
ABI_FUNCTION(primary_retain, cuDevicePrimaryCtxRetain, 7000);
ABI_FUNCTION(primary_release, cuDevicePrimaryCtxRelease, 11000);
ABI_FUNCTION(context_get, cuCtxGetCurrent, 4000);
ABI_FUNCTION(context_push, cuCtxPushCurrent, 4000);
ABI_FUNCTION(context_pop, cuCtxPopCurrent, 4000);
ABI_FUNCTION(context_device, cuCtxGetDevice, 2000);
ABI_FUNCTION(context_sync, cuCtxSynchronize, 2000);
ABI_FUNCTION(context_record, cuCtxRecordEvent, 12050);
ABI_FUNCTION(memory_info, cuMemGetInfo, 3020);
ABI_FUNCTION(alloc, cuMemAlloc, 3020);
ABI_FUNCTION(free, cuMemFree, 3020);
ABI_FUNCTION(copy_async, cuMemcpyDtoDAsync, 3020);
ABI_FUNCTION(copy_to_host, cuMemcpyDtoH, 3020);
ABI_FUNCTION(set_words, cuMemsetD32, 3020);
ABI_FUNCTION(va_reserve, cuMemAddressReserve, 10020);
ABI_FUNCTION(va_free, cuMemAddressFree, 10020);
ABI_FUNCTION(handle_create, cuMemCreate, 10020);
ABI_FUNCTION(handle_release, cuMemRelease, 10020);
ABI_FUNCTION(map, cuMemMap, 10020);
ABI_FUNCTION(unmap, cuMemUnmap, 10020);
ABI_FUNCTION(set_access, cuMemSetAccess, 10020);
ABI_FUNCTION(granularity, cuMemGetAllocationGranularity, 10020);
ABI_FUNCTION(export_handle, cuMemExportToShareableHandle, 10020);
ABI_FUNCTION(import_handle, cuMemImportFromShareableHandle, 10020);
ABI_FUNCTION(export_range, cuMemGetHandleForAddressRange, 11070);
ABI_FUNCTION(pool_create, cuMemPoolCreate, 11020);
ABI_FUNCTION(pool_destroy, cuMemPoolDestroy, 11020);
ABI_FUNCTION(pool_set, cuMemPoolSetAttribute, 11020);
ABI_FUNCTION(pool_get, cuMemPoolGetAttribute, 11020);
ABI_FUNCTION(pool_trim, cuMemPoolTrimTo, 11020);
ABI_FUNCTION(pool_access, cuMemPoolSetAccess, 11020);
ABI_FUNCTION(alloc_async, cuMemAllocFromPoolAsync, 11020);
ABI_FUNCTION(free_async, cuMemFreeAsync, 11020);
ABI_FUNCTION(stream_create, cuStreamCreate, 2000);
ABI_FUNCTION(stream_destroy, cuStreamDestroy, 4000);
ABI_FUNCTION(stream_sync, cuStreamSynchronize, 2000);
ABI_FUNCTION(stream_wait, cuStreamWaitEvent, 3020);
ABI_FUNCTION(stream_id, cuStreamGetId, 12000);
ABI_FUNCTION(stream_context, cuStreamGetCtx, 9020);
ABI_FUNCTION(stream_capturing, cuStreamIsCapturing, 10000);
ABI_FUNCTION(stream_capture, cuStreamGetCaptureInfo, 11030);
ABI_FUNCTION(capture_mode, cuThreadExchangeStreamCaptureMode, 10010);
ABI_FUNCTION(object_create, cuUserObjectCreate, 11030);
ABI_FUNCTION(object_release, cuUserObjectRelease, 11030);
ABI_FUNCTION(graph_retain, cuGraphRetainUserObject, 11030);
ABI_FUNCTION(event_create, cuEventCreate, 2000);
ABI_FUNCTION(event_destroy, cuEventDestroy, 4000);
ABI_FUNCTION(event_record, cuEventRecord, 2000);
ABI_FUNCTION(event_query, cuEventQuery, 2000);
ABI_FUNCTION(event_sync, cuEventSynchronize, 2000);
ABI_FUNCTION(module_load, cuModuleLoadData, 2000);
ABI_FUNCTION(module_unload, cuModuleUnload, 2000);
ABI_FUNCTION(module_function, cuModuleGetFunction, 2000);
ABI_FUNCTION(launch, cuLaunchKernel, 4000);

/* And that is the version which driver.h asks for; none is left out. */
#define ABI_ASKED(name, symbol, since, exported, required, parameters) \
    ABI_SAME(abi_version_of_##name, since);
WEIR_DRIVER_MAP(ABI_ASKED)
