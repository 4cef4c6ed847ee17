/* SPDX-License-Identifier: MIT */
/*
 * What the doctor says of CUDA: the driver, its devices, and for each what a pool would use there,
 * what it does without, and how the self-test went.
 */
#ifndef WEIR_CARDS_H
#define WEIR_CARDS_H

#include "conf.h"
#include "object.h"

typedef struct weir_cards {
    int count;               /* devices of the driver; 0: no driver */
    int usable;              /* the first on which a pool can be made; -1: none */
    weir_conf_source source; /* there, after any falling back */
    bool healthy;            /* no self-test failed */
} weir_cards;

/* Adds the keys "driver" and "devices" to `report`: all of them, or with `device` not negative that
 * one alone. Starts the driver, makes and releases the devices' primary contexts. */
void weir_cards_describe(weir_object *report, const weir_conf *conf, int device, weir_cards *cards);

#endif
