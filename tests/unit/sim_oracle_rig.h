/* SPDX-License-Identifier: MIT */
/* A simulated device with the oracle, its calls, and the breaches that it reported. */
#ifndef WEIR_SIM_ORACLE_RIG_H
#define WEIR_SIM_ORACLE_RIG_H

#include "sim.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define GRANULE (UINT64_C(2) << 20)

/* A simulator, its calls, and the breaches it reported. */
typedef struct oracle_rig {
    weir_sim *sim;
    const weir_device_ops *ops;
    unsigned breaches;
    char last[4096];
} oracle_rig;

static inline void oracle_note(void *self, const char *text)
{
    oracle_rig *rig = (oracle_rig *)self;
    rig->breaches++;
    strncpy(rig->last, text, sizeof(rig->last) - 1);
}

static inline oracle_rig *oracle_open(weir_sim_config config)
{
    oracle_rig *rig = (oracle_rig *)calloc(1, sizeof(*rig));
    cr_assert_not_null(rig);
    config.oracle = true;
    config.breach = oracle_note;
    config.breach_self = rig;
    rig->sim = weir_sim_create(&config);
    cr_assert_not_null(rig->sim);
    rig->ops = weir_sim_ops(rig->sim);
    return rig;
}

static inline oracle_rig *oracle_open_default(void)
{
    return oracle_open((weir_sim_config){0});
}

static inline void oracle_close(oracle_rig *rig)
{
    weir_sim_totals totals;
    weir_sim_totals_read(rig->sim, &totals);
    cr_expect_eq(totals.breaches, rig->breaches);
    weir_sim_destroy(rig->sim);
    free(rig);
}

/* One breach since the last look, whose text holds `words`. */
#define EXPECT_BREACH(rig, words) \
    do { \
        cr_expect_eq((rig)->breaches, 1, "%u breaches: %s", (rig)->breaches, (rig)->last); \
        cr_expect(strstr((rig)->last, (words)) != NULL, "wrong text: %s", (rig)->last); \
    } while (0)

#define EXPECT_LEGAL(rig) cr_expect_eq((rig)->breaches, 0, "unexpected: %s", (rig)->last)

static inline weir_addr oracle_reserve(oracle_rig *rig, uint64_t granules)
{
    weir_addr base = 0;
    cr_assert_eq(rig->ops->va_reserve(rig->sim, granules * GRANULE, &base), WEIR_OK);
    return base;
}

static inline weir_handle oracle_handle(oracle_rig *rig, uint64_t granules)
{
    weir_handle handle = 0;
    cr_assert_eq(rig->ops->handle_create(rig->sim, granules * GRANULE, &handle), WEIR_OK);
    return handle;
}

static inline void oracle_map(oracle_rig *rig, weir_addr addr, uint64_t granules,
                              weir_handle handle)
{
    cr_assert_eq(rig->ops->map(rig->sim, addr, granules * GRANULE, handle), WEIR_OK);
    cr_assert_eq(rig->ops->set_access(rig->sim, addr, granules * GRANULE), WEIR_OK);
}

/* A range of `granules` mapped by one handle. */
static inline weir_addr oracle_memory(oracle_rig *rig, uint64_t granules)
{
    weir_addr base = oracle_reserve(rig, granules);
    oracle_map(rig, base, granules, oracle_handle(rig, granules));
    return base;
}

static inline weir_event oracle_record(oracle_rig *rig, uint64_t stream)
{
    weir_event event = 0;
    cr_assert_eq(rig->ops->event_create(rig->sim, &event), WEIR_OK);
    cr_assert_eq(rig->ops->event_record(rig->sim, event, stream), WEIR_OK);
    return event;
}

#endif
