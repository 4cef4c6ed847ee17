/* SPDX-License-Identifier: MIT */
/*
 * The card: a driver of its own, beside those of the passes, and the primary context.
 *
 * Invariant  The context is retained and current while the card is held, so no pass makes or ends
 *            it, nor switches to it and back at every call.
 */
#define _GNU_SOURCE /* secure_getenv */

#include "card.h"

#include <stdlib.h>
#include <string.h>

const char *weir_card_library(void)
{
    const char *path = secure_getenv("WEIR_CUDA_LIBRARY");
    return path == NULL || path[0] == '\0' ? NULL : path;
}

#ifdef WEIR_HAS_CUDA

#include "driver.h"

typedef struct card_hold {
    weir_driver driver;
    weir_cu_device device;
    weir_cu_context context; /* retained where it is not NULL */
    bool current;            /* and on the thread's stack */
} card_hold;

bool weir_card_built(void)
{
    return true;
}

static bool card_count(const card_hold *hold, int device, weir_fault *fault)
{
    int count = 0;

    if (hold->driver.device_count(&count) == WEIR_CU_OK && device < count) return true;
    return weir_fault_set(fault, "there is no CUDA device %d: the driver sees %d of them, from 0",
                          device, count);
}

/* What the device says of itself; its context is current. */
static weir_cu_result card_ask(card_hold *hold, weir_card *card)
{
    weir_driver *driver = &hold->driver;
    size_t free_bytes = 0, total_bytes = 0;
    weir_cu_result result = driver->device_name(card->name, WEIR_CARD_NAME_BYTES - 1, hold->device);

    if (result == WEIR_CU_OK) result = driver->memory_info(&free_bytes, &total_bytes);
    if (result == WEIR_CU_OK) result = driver->device_memory(&total_bytes, hold->device);
    card->free_bytes = free_bytes;
    card->total_bytes = total_bytes;
    card->driver_version = driver->driver_version;
    return result;
}

static bool card_take(card_hold *hold, weir_card *card, int device, weir_fault *fault)
{
    weir_driver *driver = &hold->driver;
    weir_cu_result result;

    if (!card_count(hold, device, fault)) return false;
    result = driver->device_get(&hold->device, device);
    if (result == WEIR_CU_OK) result = driver->primary_retain(&hold->context, hold->device);
    if (result == WEIR_CU_OK) result = driver->context_push(hold->context);
    hold->current = result == WEIR_CU_OK;
    if (result == WEIR_CU_OK) result = card_ask(hold, card);
    if (result == WEIR_CU_OK) return true;
    return weir_fault_set(fault, "CUDA device %d cannot be used: %s", device,
                          weir_driver_error(driver, result));
}

bool weir_card_open(weir_card *card, int device, weir_fault *fault)
{
    char why[WEIR_DRIVER_WHY_BYTES];
    card_hold *hold = calloc(1, sizeof *hold);

    memset(card, 0, sizeof *card);
    if (hold == NULL) return weir_fault_set(fault, "not enough memory for the CUDA device");
    if (weir_driver_open(&hold->driver, weir_card_library(), why) != WEIR_OK) {
        free(hold);
        return weir_fault_set(fault, "backend cuda: %s", why);
    }
    card->held = hold;
    if (card_take(hold, card, device, fault)) return true;
    weir_card_close(card);
    return false;
}

void weir_card_close(weir_card *card)
{
    card_hold *hold = card->held;
    weir_cu_context ours = NULL;

    if (hold != NULL) {
        if (hold->current) (void)hold->driver.context_pop(&ours);
        if (hold->context != NULL) (void)hold->driver.primary_release(hold->device);
        weir_driver_close(&hold->driver);
        free(hold);
    }
    memset(card, 0, sizeof *card);
}

#else

bool weir_card_built(void)
{
    return false;
}

bool weir_card_open(weir_card *card, int device, weir_fault *fault)
{
    (void)device;
    memset(card, 0, sizeof *card);
    return weir_fault_set(fault, "backend cuda: this weir was built without it; build with the "
                                 "CMake option WEIR_CUDA=ON");
}

void weir_card_close(weir_card *card)
{
    memset(card, 0, sizeof *card);
}

#endif
