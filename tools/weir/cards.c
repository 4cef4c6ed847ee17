/* SPDX-License-Identifier: MIT */
/* The driver by its own table, opened beside that of the pools it is asked about. */
#include "cards.h"

#include <stdlib.h>

#include "card.h"

#ifdef WEIR_HAS_CUDA

#include <stddef.h>
#include <string.h>

#include "carduse.h"
#include "driver.h"

enum { CARDS_NAME_BYTES = 128, CARDS_UUID_BYTES = 48 };

typedef struct cards_run {
    weir_driver driver;
    const weir_conf *conf;
    weir_object *report;
    weir_cards *cards;
} cards_run;

/* ------------------------------------------------------------------------------------ driver -- */

/* Functions that Weir can do without, and this driver lacks. */
static void cards_missing(weir_object *object, const weir_driver *driver)
{
    weir_object_list(object, "functions_missing");
#define CARDS_MISSING(name, symbol, since, exported, required, parameters) \
    if (driver->name == NULL) weir_object_append_text(object, "functions_missing", symbol);
    WEIR_DRIVER_MAP(CARDS_MISSING)
#undef CARDS_MISSING
}

static void cards_driver_off(weir_object *object, const weir_driver *driver)
{
    weir_object_list(object, "off");
    if (driver->stream_id == NULL)
        weir_carduse_off(object, "telling a stream from a destroyed one of the same handle",
                         "cuStreamGetId came with CUDA 12.0; let programs say when streams end");
    if (driver->stream_capture == NULL || driver->object_create == NULL ||
        driver->object_release == NULL || driver->graph_retain == NULL)
        weir_carduse_off(object, "allocating while a stream is captured",
                         "the driver's user objects came with CUDA 11.3");
    if (driver->context_record == NULL)
        weir_carduse_off(object, "rescue within a bound on waiting",
                         "cuCtxRecordEvent came with CUDA 12.5");
}

static void cards_driver(cards_run *run)
{
    weir_object object = weir_object_new();
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    int version = run->driver.driver_version;
    char text[32];

    (void)snprintf(text, sizeof text, "%d.%d", version / 1000, version % 1000 / 10);
    weir_object_flag(&object, "found", true);
    weir_object_text(&object, "cuda_version", text);
    weir_object_text(&object, "library",
                     weir_card_library() != NULL ? weir_card_library() : "libcuda.so.1");
    weir_object_text(&object, "visible_devices", visible);
    weir_object_count(&object, "devices", (uint64_t)run->cards->count);
    weir_object_flag(&object, "stream_ids", run->driver.stream_id != NULL);
    cards_missing(&object, &run->driver);
    cards_driver_off(&object, &run->driver);
    weir_object_put(run->report, "driver", object);
}

static void cards_no_driver(cards_run *run, const char *why)
{
    weir_object object = weir_object_new();

    weir_object_flag(&object, "found", false);
    weir_object_text(&object, "why", why);
    weir_object_text(&object, "library",
                     weir_card_library() != NULL ? weir_card_library() : "libcuda.so.1");
    weir_object_put(run->report, "driver", object);
}

/* ----------------------------------------------------------------------------------- devices -- */

static int cards_attribute(const cards_run *run, weir_cu_device device, int attribute)
{
    int value = 0;
    return run->driver.device_attribute(&value, attribute, device) == WEIR_CU_OK ? value : 0;
}

static void cards_name(const cards_run *run, weir_object *object, weir_cu_device device)
{
    char name[CARDS_NAME_BYTES] = "", uuid[CARDS_UUID_BYTES] = "GPU";
    weir_cu_uuid bytes;
    bool known =
        run->driver.device_uuid != NULL && run->driver.device_uuid(&bytes, device) == WEIR_CU_OK;

    if (run->driver.device_name(name, CARDS_NAME_BYTES - 1, device) == WEIR_CU_OK)
        weir_object_text(object, "name", name);
    else weir_object_null(object, "name");
    for (size_t i = 0, at = 3; known && i < sizeof bytes.bytes; i++) {
        bool dash = i == 0 || i == 4 || i == 6 || i == 8 || i == 10;
        at += (size_t)snprintf(uuid + at, sizeof uuid - at, "%s%02x", dash ? "-" : "",
                               (unsigned)(unsigned char)bytes.bytes[i]);
    }
    weir_object_text(object, "uuid", known ? uuid : NULL);
}

/* What is free can be asked only in a context of the device; NULL: there is none. */
static void cards_memory(const cards_run *run, weir_object *object, weir_cu_device device,
                         weir_cu_context context)
{
    const weir_driver *driver = &run->driver;
    size_t free_bytes = 0, total_bytes = 0;
    weir_cu_context ours = NULL;
    weir_cu_result result = WEIR_CU_INVALID_CONTEXT;

    if (context != NULL) result = driver->context_push(context);
    if (result == WEIR_CU_OK) {
        result = driver->memory_info(&free_bytes, &total_bytes);
        (void)driver->context_pop(&ours);
    }
    if (driver->device_memory(&total_bytes, device) == WEIR_CU_OK)
        weir_object_count(object, "memory_bytes", total_bytes);
    else weir_object_null(object, "memory_bytes");
    if (result == WEIR_CU_OK) weir_object_count(object, "free_bytes", free_bytes);
    else weir_object_null(object, "free_bytes");
}

static void cards_granule(const cards_run *run, weir_object *object, weir_cu_device device)
{
    weir_cu_handle_prop prop;
    size_t bytes = 0;

    memset(&prop, 0, sizeof prop);
    prop.type = WEIR_CU_ALLOCATION_PINNED;
    prop.location.type = WEIR_CU_LOCATION_DEVICE;
    prop.location.id = device;
    if (run->driver.granularity == NULL ||
        run->driver.granularity(&bytes, &prop, WEIR_CU_GRANULARITY_MINIMUM) != WEIR_CU_OK)
        weir_object_null(object, "granularity_bytes");
    else weir_object_count(object, "granularity_bytes", bytes);
}

static void cards_abilities(const cards_run *run, weir_object *object, weir_cu_device device,
                            weir_carduse_has *has)
{
    static const struct {
        const char *key;
        int attribute;
        size_t place; /* in *has; past its end: only told */
    } abilities[] = {
        {"virtual_memory", WEIR_CU_ATTR_VMM, offsetof(weir_carduse_has, vmm)},
        {"memory_pools", WEIR_CU_ATTR_POOLS, offsetof(weir_carduse_has, pools)},
        {"posix_fd_export", WEIR_CU_ATTR_POSIX_FD, offsetof(weir_carduse_has, posix_fd)},
        {"fabric_export", WEIR_CU_ATTR_FABRIC, sizeof(weir_carduse_has)},
        {"rdma", WEIR_CU_ATTR_RDMA, sizeof(weir_carduse_has)},
        {"rdma_virtual_memory", WEIR_CU_ATTR_RDMA_VMM, offsetof(weir_carduse_has, rdma)},
        {"dma_buf_export", WEIR_CU_ATTR_DMA_BUF, offsetof(weir_carduse_has, dma_buf)},
        {"host_memory_handles", WEIR_CU_ATTR_HOST_NUMA_VMM, sizeof(weir_carduse_has)},
        {"integrated", WEIR_CU_ATTR_INTEGRATED, sizeof(weir_carduse_has)}};

    for (size_t i = 0; i < sizeof abilities / sizeof abilities[0]; i++) {
        bool can = cards_attribute(run, device, abilities[i].attribute) != 0;
        weir_object_flag(object, abilities[i].key, can);
        if (abilities[i].place < sizeof *has)
            memcpy((char *)has + abilities[i].place, &can, sizeof can);
    }
    has->vmm = has->vmm && run->driver.map != NULL;
    has->pools = has->pools && run->driver.alloc_async != NULL;
}

static void cards_peers(const cards_run *run, weir_object *object, weir_cu_device device)
{
    char text[16];
    int can = 0;

    weir_object_list(object, "peers");
    for (int i = 0; i < run->cards->count; i++) {
        if (i == device || run->driver.device_peer(&can, device, i) != WEIR_CU_OK || can == 0)
            continue;
        (void)snprintf(text, sizeof text, "%d", i);
        weir_object_append_text(object, "peers", text);
    }
}

static void cards_facts(const cards_run *run, weir_object *object, weir_cu_device device,
                        weir_cu_context context, weir_carduse_has *has)
{
    char text[32];

    cards_name(run, object, device);
    (void)snprintf(text, sizeof text, "%d.%d", cards_attribute(run, device, WEIR_CU_ATTR_MAJOR),
                   cards_attribute(run, device, WEIR_CU_ATTR_MINOR));
    weir_object_text(object, "compute_capability", text);
    weir_object_count(object, "multiprocessors",
                      (uint64_t)cards_attribute(run, device, WEIR_CU_ATTR_MULTIPROCESSORS));
    cards_memory(run, object, device, context);
    cards_abilities(run, object, device, has);
    cards_granule(run, object, device);
    cards_peers(run, object, device);
}

/* The context is held throughout, since making one takes long. */
static void cards_device(cards_run *run, int ordinal)
{
    weir_object object = weir_object_new();
    weir_carduse_has has = {false, false, false, false, false};
    weir_cu_device device = ordinal;
    weir_cu_context context = NULL;
    weir_conf_source source = WEIR_CONF_VMM;
    bool healthy = true;

    weir_object_count(&object, "ordinal", (uint64_t)ordinal);
    if (run->driver.device_get(&device, ordinal) == WEIR_CU_OK) {
        if (run->driver.primary_retain(&context, device) != WEIR_CU_OK) context = NULL;
        cards_facts(run, &object, device, context, &has);
    }
    if (weir_carduse_describe(&object, ordinal, run->conf, &has, &source, &healthy) &&
        run->cards->usable < 0) {
        run->cards->usable = ordinal;
        run->cards->source = source;
    }
    if (context != NULL) (void)run->driver.primary_release(device);
    run->cards->healthy = run->cards->healthy && healthy;
    weir_object_append(run->report, "devices", object);
}

void weir_cards_describe(weir_object *report, const weir_conf *conf, int device, weir_cards *cards)
{
    cards_run run = {.conf = conf, .report = report, .cards = cards};
    char why[WEIR_DRIVER_WHY_BYTES];

    cards->count = 0;
    cards->usable = -1;
    cards->healthy = true;
    if (weir_driver_open(&run.driver, weir_card_library(), why) != WEIR_OK) {
        cards_no_driver(&run, why);
        weir_object_list(report, "devices");
        return;
    }
    if (run.driver.device_count(&cards->count) != WEIR_CU_OK) cards->count = 0;
    cards_driver(&run);
    weir_object_list(report, "devices");
    for (int i = 0; i < cards->count; i++)
        if (device < 0 || device == i) cards_device(&run, i);
    weir_driver_close(&run.driver);
}

#else

void weir_cards_describe(weir_object *report, const weir_conf *conf, int device, weir_cards *cards)
{
    weir_object object = weir_object_new();

    (void)conf, (void)device;
    cards->count = 0;
    cards->usable = -1;
    cards->source = WEIR_CONF_VMM;
    cards->healthy = true;
    weir_object_flag(&object, "found", false);
    weir_object_text(&object, "why", "not looked for: this weir was built without backend cuda");
    weir_object_null(&object, "library");
    weir_object_put(report, "driver", object);
    weir_object_list(report, "devices");
}

#endif
