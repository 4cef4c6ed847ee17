/* SPDX-License-Identifier: MIT */
/*
 * What the files of the stand-in for libcuda share.
 *
 *   fake.c           the state, its reset, and the way in and out of every call
 *   fake_control.c   the calls of fakecuda.h that look and disturb
 *   fake_lookup.c    names, versions, cuGetProcAddress
 *   fake_context.c   starting, devices, contexts
 *   fake_memory.c    addresses, handles, mappings
 *   fake_share.c     access by devices, exports
 *   fake_segment.c   cuMemAlloc, the driver's pools
 *   fake_area.c      which addresses have memory, and who may touch it
 *   fake_stream.c    streams and their order with the legacy one
 *   fake_event.c     events
 *   fake_work.c      kernels, copies, what runs on a stream's thread
 *   fake_capture.c   captures
 *   fake_graph.c     graphs and user objects
 *
 * A library with a C ABI has no argument to carry its state in, so the state is one struct behind
 * the one static pointer of the tree, in fake.c; all else gets it by way of fake_call.
 *
 * One lock guards all of it. It is released while a call waits, while work runs, and around
 * callbacks.
 */
#ifndef WEIR_FAKE_INTERNAL_H
#define WEIR_FAKE_INTERNAL_H

#include "fakecuda.h"
#include "host.h"

#include <pthread.h>

#define FAKE_DEVICES_MAX 4
#define FAKE_STACK_MAX 16u  /* contexts on a thread's stack */
#define FAKE_MEMBERS_MAX 8u /* streams of one capture */
#define FAKE_FAULTS_MAX 8u
#define FAKE_HIDDEN_MAX 8u
#define FAKE_RANGES_MAX 2u /* of memory that one piece of work touches */
#define FAKE_GRANULE (UINT64_C(2) << 20)
#define FAKE_SMALL_GRANULE (UINT64_C(64) << 10)

/* Results that only the stand-in gives. */
enum {
    FAKE_ILLEGAL_STATE = 401,
    FAKE_CAPTURE_MERGE = 902,
    FAKE_CAPTURE_UNMATCHED = 903,
    FAKE_CAPTURE_UNJOINED = 904,
    FAKE_CAPTURE_WRONG_THREAD = 908
};

/* X(exported name, name for cuGetProcAddress, first version with this signature, first version
 * with a later one or 0) */
#define FAKE_MAP(X) \
    X(cuInit, "cuInit", 2000, 0) \
    X(cuDriverGetVersion, "cuDriverGetVersion", 2020, 0) \
    X(cuGetErrorName, "cuGetErrorName", 6000, 0) \
    X(cuGetProcAddress, "", 11030, 0) \
    X(cuGetProcAddress_v2, "", 12000, 0) \
    X(cuDeviceGetCount, "cuDeviceGetCount", 2000, 0) \
    X(cuDeviceGet, "cuDeviceGet", 2000, 0) \
    X(cuDeviceGetName, "cuDeviceGetName", 2000, 0) \
    X(cuDeviceGetAttribute, "cuDeviceGetAttribute", 2000, 0) \
    X(cuDeviceTotalMem_v2, "cuDeviceTotalMem", 3020, 0) \
    X(cuDeviceGetUuid, "cuDeviceGetUuid", 9020, 11040) \
    X(cuDeviceCanAccessPeer, "cuDeviceCanAccessPeer", 4000, 0) \
    X(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", 7000, 0) \
    X(cuDevicePrimaryCtxRelease_v2, "cuDevicePrimaryCtxRelease", 11000, 0) \
    X(cuCtxGetCurrent, "cuCtxGetCurrent", 4000, 0) \
    X(cuCtxSetCurrent, "cuCtxSetCurrent", 4000, 0) \
    X(cuCtxPushCurrent_v2, "cuCtxPushCurrent", 4000, 0) \
    X(cuCtxPopCurrent_v2, "cuCtxPopCurrent", 4000, 0) \
    X(cuCtxGetDevice, "cuCtxGetDevice", 2000, 13000) \
    X(cuCtxSynchronize, "cuCtxSynchronize", 2000, 13000) \
    X(cuCtxRecordEvent, "cuCtxRecordEvent", 12050, 0) \
    X(cuCtxCreate_v2, "cuCtxCreate", 3020, 11040) \
    X(cuCtxDestroy_v2, "cuCtxDestroy", 4000, 0) \
    X(cuMemGetInfo_v2, "cuMemGetInfo", 3020, 0) \
    X(cuMemAlloc_v2, "cuMemAlloc", 3020, 0) \
    X(cuMemFree_v2, "cuMemFree", 3020, 0) \
    X(cuMemcpyDtoDAsync_v2, "cuMemcpyDtoDAsync", 3020, 0) \
    X(cuMemcpyDtoH_v2, "cuMemcpyDtoH", 3020, 0) \
    X(cuMemsetD32_v2, "cuMemsetD32", 3020, 0) \
    X(cuMemAddressReserve, "cuMemAddressReserve", 10020, 0) \
    X(cuMemAddressFree, "cuMemAddressFree", 10020, 0) \
    X(cuMemCreate, "cuMemCreate", 10020, 0) \
    X(cuMemRelease, "cuMemRelease", 10020, 0) \
    X(cuMemMap, "cuMemMap", 10020, 0) \
    X(cuMemUnmap, "cuMemUnmap", 10020, 0) \
    X(cuMemSetAccess, "cuMemSetAccess", 10020, 0) \
    X(cuMemGetAllocationGranularity, "cuMemGetAllocationGranularity", 10020, 0) \
    X(cuMemExportToShareableHandle, "cuMemExportToShareableHandle", 10020, 0) \
    X(cuMemImportFromShareableHandle, "cuMemImportFromShareableHandle", 10020, 0) \
    X(cuMemGetHandleForAddressRange, "cuMemGetHandleForAddressRange", 11070, 0) \
    X(cuMemPoolCreate, "cuMemPoolCreate", 11020, 0) \
    X(cuMemPoolDestroy, "cuMemPoolDestroy", 11020, 0) \
    X(cuMemPoolSetAttribute, "cuMemPoolSetAttribute", 11020, 0) \
    X(cuMemPoolGetAttribute, "cuMemPoolGetAttribute", 11020, 0) \
    X(cuMemPoolTrimTo, "cuMemPoolTrimTo", 11020, 0) \
    X(cuMemPoolSetAccess, "cuMemPoolSetAccess", 11020, 0) \
    X(cuMemAllocFromPoolAsync, "cuMemAllocFromPoolAsync", 11020, 0) \
    X(cuMemFreeAsync, "cuMemFreeAsync", 11020, 0) \
    X(cuStreamCreate, "cuStreamCreate", 2000, 0) \
    X(cuStreamDestroy_v2, "cuStreamDestroy", 4000, 0) \
    X(cuStreamSynchronize, "cuStreamSynchronize", 2000, 0) \
    X(cuStreamWaitEvent, "cuStreamWaitEvent", 3020, 0) \
    X(cuStreamGetId, "cuStreamGetId", 12000, 0) \
    X(cuStreamGetCtx, "cuStreamGetCtx", 9020, 12050) \
    X(cuStreamIsCapturing, "cuStreamIsCapturing", 10000, 0) \
    X(cuStreamGetCaptureInfo_v2, "cuStreamGetCaptureInfo", 11030, 12030) \
    X(cuStreamBeginCapture_v2, "cuStreamBeginCapture", 10010, 0) \
    X(cuStreamEndCapture, "cuStreamEndCapture", 10000, 0) \
    X(cuThreadExchangeStreamCaptureMode, "cuThreadExchangeStreamCaptureMode", 10010, 0) \
    X(cuUserObjectCreate, "cuUserObjectCreate", 11030, 0) \
    X(cuUserObjectRelease, "cuUserObjectRelease", 11030, 0) \
    X(cuGraphRetainUserObject, "cuGraphRetainUserObject", 11030, 0) \
    X(cuGraphInstantiateWithFlags, "cuGraphInstantiateWithFlags", 11040, 0) \
    X(cuGraphLaunch, "cuGraphLaunch", 10000, 0) \
    X(cuGraphExecDestroy, "cuGraphExecDestroy", 10000, 0) \
    X(cuGraphDestroy, "cuGraphDestroy", 10000, 0) \
    X(cuEventCreate, "cuEventCreate", 2000, 0) \
    X(cuEventDestroy_v2, "cuEventDestroy", 4000, 0) \
    X(cuEventRecord, "cuEventRecord", 2000, 0) \
    X(cuEventQuery, "cuEventQuery", 2000, 0) \
    X(cuEventSynchronize, "cuEventSynchronize", 2000, 0) \
    X(cuModuleLoadData, "cuModuleLoadData", 2000, 0) \
    X(cuModuleUnload, "cuModuleUnload", 2000, 0) \
    X(cuModuleGetFunction, "cuModuleGetFunction", 2000, 0) \
    X(cuLaunchKernel, "cuLaunchKernel", 4000, 0)

typedef enum fake_name {
#define FAKE_NAME(exported, symbol, since, until) FAKE_##exported,
    FAKE_MAP(FAKE_NAME)
#undef FAKE_NAME
        FAKE_NAMES
} fake_name;

/* What a call needs before it is made. */
enum {
    FAKE_ALWAYS = 0,        /* nothing: it works in any state but at the process's end */
    FAKE_STARTED = 1u << 0, /* cuInit */
    FAKE_CURRENT = 1u << 1, /* a current context */
    FAKE_STACK = 1u << 2,   /* it is about contexts themselves: works with a lost one */
    FAKE_UNSAFE = 1u << 3,  /* forbidden to a thread that a capture restricts */
    FAKE_NAMING = 1u << 4,  /* it names errors: never fails by request */
    FAKE_ASKING = 1u << 5   /* with CURRENT: it changes nothing, so a refusal breaks no rule */
};

typedef struct fake_capture fake_capture;
typedef struct fake_thread fake_thread;
typedef struct fake_stream fake_stream;

/* Handles are numbers: a kind above, a place below. A place is given again or not, by the table. */
typedef enum fake_kind {
    FAKE_IS_CONTEXT = 1,
    FAKE_IS_STREAM,
    FAKE_IS_EVENT,
    FAKE_IS_HANDLE,
    FAKE_IS_POOL,
    FAKE_IS_GRAPH,
    FAKE_IS_EXEC,
    FAKE_IS_OBJECT,
    FAKE_IS_MODULE,
    FAKE_IS_FUNCTION,
    FAKE_KINDS
} fake_kind;

typedef struct fake_table {
    void **at;
    size_t count, room, live;
} fake_table;

typedef struct fake_device {
    uint64_t held_bytes;
    uint64_t primary; /* the handle, 0: never made */
    unsigned retained;
    weir_cu_result lost; /* not 0: what calls answer */
} fake_device;

typedef struct fake_context {
    uint64_t handle;
    int device;
    bool is_primary, alive;
    fake_stream *legacy; /* made at first use */
    fake_stream *all;    /* where cuCtxRecordEvent gathers; made at first use */
} fake_context;

struct fake_stream {
    fake_stream *next; /* of all, those with unfinished work after their end too */
    uint64_t handle;   /* 0: a default stream */
    uint64_t id;       /* never given twice */
    fake_context *context;
    fake_thread *owner; /* of a per-thread default stream */
    bool blocking, legacy, ended;
    uint64_t number; /* the host device's */
    weir_event tail; /* a place in it, of no lasting meaning */
    fake_capture *capture;
    unsigned member;                  /* of the capture */
    unsigned clock[FAKE_MEMBERS_MAX]; /* captured so far of each member, as ordered before this */
};

typedef struct fake_event {
    uint64_t handle;
    fake_context *context;
    weir_event host;
    uint64_t number; /* the host's stream that it was recorded on; 0: on all of a context */
    bool recorded;
    uint64_t captured; /* the id of the capture that it was last recorded in, or 0 */
    unsigned clock[FAKE_MEMBERS_MAX];
} fake_event;

struct fake_thread {
    fake_thread *next;
    struct fake_state *state;
    uint64_t stack[FAKE_STACK_MAX]; /* contexts */
    unsigned depth;
    int mode;
    bool no_calls; /* it runs a destructor */
};

/* -------------------------------------------------------------------------------------- memory -- */

typedef struct fake_handle {
    weir_handle host;
    uint64_t bytes;
    uint64_t id; /* of the memory, in exports */
    int device;
    unsigned names; /* handles that stand for it: made or imported */
    unsigned maps;
    int types; /* how it may be exported */
} fake_handle;

typedef struct fake_pool fake_pool;

typedef enum fake_area_kind { FAKE_MAPPED, FAKE_ALLOCATED, FAKE_POOLED } fake_area_kind;

/* Addresses that have memory. */
enum { FAKE_UNKNOWN = 999 }; /* CUDA_ERROR_UNKNOWN, which Weir has no need to tell apart */

typedef struct fake_area {
    uint64_t addr, bytes;
    fake_area_kind kind;
    int device;
    unsigned access;     /* a bit for each device */
    fake_handle *handle; /* MAPPED */
    pthread_t mapper;    /* MAPPED: the thread that did */
    fake_pool *pool;     /* POOLED */
    uint64_t base;       /* ALLOCATED, POOLED: what the system gave */
    uint64_t base_bytes;
    bool ready; /* POOLED: the stream has come to the allocation */
    bool going; /* POOLED: a free is queued */
} fake_area;

typedef struct fake_block { /* free memory of a pool */
    uint64_t base, base_bytes;
    uint64_t number; /* the host's stream that it was freed on */
    bool seen;       /* a synchronisation has shown that it is free */
} fake_block;

struct fake_pool {
    uint64_t handle;
    int device;
    unsigned access;
    bool ended; /* destroyed, with frees on their way */
    uint64_t threshold, reserved, used, reserved_high, used_high;
    fake_block *blocks;
    size_t count, room;
};

/* ---------------------------------------------------------------------------------------- work -- */

typedef enum fake_work_kind {
    FAKE_FILL,
    FAKE_VERIFY,
    FAKE_SPIN,
    FAKE_COPY,
    FAKE_SET,
    FAKE_HOLD,
    FAKE_ARRIVE, /* an allocation of a pool is reached */
    FAKE_LEAVE,  /* a free is */
    FAKE_CEASE   /* a launch of a graph has ended */
} fake_work_kind;

typedef struct fake_range {
    uint64_t addr, bytes;
} fake_range;

typedef struct fake_work {
    struct fake_work *next; /* of what is unfinished */
    struct fake_state *state;
    fake_work_kind kind;
    int device;
    uint64_t number; /* in the order of queueing */
    uint64_t stream; /* the host's */
    fake_range range[FAKE_RANGES_MAX];
    uint64_t tag; /* of a pattern; nanoseconds of a spin; the word of a set */
    struct fake_exec *exec;
} fake_work;

typedef struct fake_function {
    uint64_t module;
    fake_work_kind kind;
} fake_function;

/* ------------------------------------------------------------------------------------- capture -- */

typedef struct fake_object {
    uint64_t handle;
    uint64_t count;
    void *self;
    void (*destroy)(void *self);
} fake_object;

typedef struct fake_share {
    fake_object *object;
    uint64_t count;
} fake_share;

typedef struct fake_graph {
    uint64_t handle;
    fake_work *nodes; /* an array, in the order of capture */
    size_t count, room;
    fake_share *shares;
    size_t share_count, share_room;
    bool captured; /* still being made */
} fake_graph;

typedef struct fake_exec {
    uint64_t handle;
    fake_graph *graph; /* a copy */
    uint64_t running;  /* launches */
    bool ended;
} fake_exec;

struct fake_capture {
    fake_capture *next;
    uint64_t id;
    fake_graph *graph;
    fake_thread *thread;
    int mode;
    bool broken;
    fake_stream *members[FAKE_MEMBERS_MAX]; /* the first began it */
    unsigned count;
    unsigned ops[FAKE_MEMBERS_MAX]; /* captured on each */
};

/* --------------------------------------------------------------------------------------- state -- */

typedef struct fake_fault {
    int name; /* -1: any */
    uint64_t left;
    weir_cu_result result;
    bool forever;
} fake_fault;

typedef struct fake_state {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* a hold ended */
    pthread_key_t key;      /* the fake_thread of each thread */
    weir_fakecuda_config config;
    weir_host *host;
    const weir_device_ops *ops;
    bool started, ended;
    long process;        /* that it was opened in */
    weir_cu_result lost; /* not 0: what every call answers */
    int device_count;
    fake_device devices[FAKE_DEVICES_MAX];
    fake_table tables[FAKE_KINDS];
    fake_thread *threads;
    fake_stream *streams;
    fake_capture *captures;
    fake_work *pending;
    fake_area *areas; /* sorted */
    size_t area_count, area_room;
    uint64_t ranges; /* of addresses, reserved */
    uint64_t next_id;
    uint64_t next_work;
    uint64_t janitor; /* the host's stream that runs destructors */
    uint64_t holds;   /* rounds of hold and go */
    uint64_t calls[FAKE_NAMES];
    fake_fault faults[FAKE_FAULTS_MAX];
    unsigned fault_count;
    const char *fault_hit; /* the name of the call */
    char hidden[FAKE_HIDDEN_MAX][48];
    unsigned hidden_count;
    uint64_t breaches;
    char breach[256];
    char balance[512];
    char path[512];
} fake_state;

/* One call of the driver; the lock is held from enter to leave. */
typedef struct fake_call {
    fake_state *state;
    fake_thread *thread;
    fake_context *context; /* the current one, or NULL */
    fake_name name;
    weir_cu_result result;
} fake_call;

fake_call weir_fake_enter(fake_name name, unsigned needs);
weir_cu_result weir_fake_leave(fake_call *call);
/* For the calls of fakecuda.h: the state, with its lock held. */
fake_state *weir_fake_lock(void);
void weir_fake_unlock(fake_state *state);
/* The calling thread's record. */
fake_thread *weir_fake_thread(fake_state *state);

/* An exported function: what it needs, its parameters, and the expression that does it with `call`
 * at hand. */
#define FAKE_FUNCTION(name, needs, parameters, doing) \
    weir_cu_result name parameters; \
    weir_cu_result name parameters \
    { \
        fake_call call = weir_fake_enter(FAKE_##name, needs); \
        if (call.result == WEIR_CU_OK) { \
            call.result = (doing); \
        } \
        return weir_fake_leave(&call); \
    }

void weir_fake_breach(fake_state *state, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
const char *weir_fake_name(fake_name name);
int weir_fake_name_find(const char *exported); /* -1: none */

/* Host memory; the stand-in gives up where there is none. */
void *weir_fake_new(size_t bytes);
void *weir_fake_room(void *array, size_t count, size_t *room, size_t bytes);

/* 0 is no handle. */
uint64_t weir_fake_add(fake_state *state, fake_kind kind, void *thing);
void *weir_fake_find(fake_state *state, fake_kind kind, const void *handle);
void weir_fake_drop(fake_state *state, fake_kind kind, uint64_t handle);
#define FAKE_HANDLE(number) ((void *)(uintptr_t)(number))

/* ------------------------------------------------------------------------------------ contexts -- */

/* By handle; NULL where it is none or has ended. */
fake_context *weir_fake_context(fake_state *state, const void *handle);

/* ------------------------------------------------------------------------------------- streams -- */

/* The stream of a handle, or of a word for a default stream; NULL, with a breach, where there is
 * none. */
fake_stream *weir_fake_stream(fake_call *call, const void *handle);
fake_stream *weir_fake_legacy(fake_state *state, fake_context *context);
/* Puts in the waits that come between the legacy stream and the blocking ones. */
void weir_fake_order(fake_state *state, fake_stream *stream);
/* 0, or why nothing may be put on the stream now: a capture that it would break, and does. */
weir_cu_result weir_fake_stream_check(fake_call *call, fake_stream *stream);
/* Waits, with the lock released, for all that is queued on a stream of the host device. */
void weir_fake_wait(fake_state *state, uint64_t number);
/* The number of a stream that comes after all that is queued in the context. */
uint64_t weir_fake_gather(fake_state *state, fake_context *context);
void weir_fake_streams_end(fake_state *state, const fake_context *context);
void weir_fake_thread_streams_end(fake_state *state, const fake_thread *thread);

/* ---------------------------------------------------------------------------------------- work -- */

/* Queues work on a stream, or captures it. Takes a copy. */
weir_cu_result weir_fake_queue(fake_call *call, fake_stream *stream, const fake_work *work);
/* Whether unfinished work older than `before` touches a range. */
bool weir_fake_is_used(fake_state *state, uint64_t addr, uint64_t bytes, uint64_t before);

/* ------------------------------------------------------------------------------------ captures -- */

/* 900 where a capture forbids unsafe calls to this thread; the captures are broken then. */
weir_cu_result weir_fake_capture_unsafe(fake_call *call);
/* Breaks all captures of a context; whether there were any. */
bool weir_fake_capture_break_all(fake_state *state, const fake_context *context, const char *by);
void weir_fake_capture_break(fake_state *state, fake_capture *capture, const char *by);
/* Whether a blocking stream of the context is captured: the legacy stream may not be used then. */
bool weir_fake_capture_blocks(fake_state *state, const fake_context *context, bool breaks,
                              const char *by);
fake_capture *weir_fake_capture_find(fake_state *state, uint64_t id);
void weir_fake_capture_join(fake_capture *capture, fake_stream *stream);
void weir_fake_captures_drop(fake_state *state);

/* -------------------------------------------------------------------------------------- graphs -- */

fake_graph *weir_fake_graph_new(fake_state *state);
void weir_fake_graph_node(fake_graph *graph, const fake_work *work);
void weir_fake_graph_drop(fake_state *state, fake_graph *graph);
void weir_fake_graphs_drop(fake_state *state);
/* A launch of `exec` has ended. */
void weir_fake_exec_cease(fake_state *state, fake_exec *exec);

/* --------------------------------------------------------------------------------------- areas -- */

void weir_fake_area_add(fake_state *state, fake_area area);
/* The area that starts at, or that holds, an address; or NULL. Until the next add or remove. */
fake_area *weir_fake_area_at(fake_state *state, uint64_t addr);
fake_area *weir_fake_area_holding(fake_state *state, uint64_t addr);
void weir_fake_area_remove(fake_state *state, fake_area *area);
/* Whole areas, mapped, without gaps, that make up the range: how many, 0 if they do not. */
size_t weir_fake_area_whole(fake_state *state, uint64_t addr, uint64_t bytes);
/* NULL where a device may touch all of a range; else what is wrong. */
const char *weir_fake_area_wrong(fake_state *state, fake_range range, int device);

/* -------------------------------------------------------------------------------------- memory -- */

bool weir_fake_take(fake_state *state, int device, uint64_t bytes);
void weir_fake_untake(fake_state *state, int device, uint64_t bytes);
uint64_t weir_fake_granule(const fake_state *state);
bool weir_fake_device_is(const fake_state *state, int device);
/* The bit of each device in a list, 0 where one has no access to `owner`. */
unsigned weir_fake_access(const fake_state *state, int owner, const weir_cu_access *access,
                          size_t count);
/* An allocation or a free of a pool is reached. */
void weir_fake_pool_arrive(fake_state *state, uint64_t addr);
void weir_fake_pool_leave(fake_state *state, uint64_t addr, uint64_t number);
/* What the driver does at a synchronisation with a stream of the host, 0: with all. It sees what was
 * freed there, and trims pools of it down to their thresholds. */
void weir_fake_pools_sync(fake_state *state, int device, uint64_t number);
void weir_fake_pools_drop(fake_state *state);

#endif
