/* SPDX-License-Identifier: MIT */
/*
 * One suite that every device passes: first its calls alone against docs/backend.md, then a pool on
 * top of it.
 *
 * To run it on a device of your own, write one file with a weir_conformance_device like those in
 * device_*.c and add its name to devices.c. Every test makes a device, works on it, and at the end
 * expects no errors and nothing left over.
 */
#ifndef WEIR_CONFORMANCE_H
#define WEIR_CONFORMANCE_H

#include "weir.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>

typedef struct weir_conformance_device {
    const char *name;
    void *(*create)(void); /* the device_self of its calls; NULL: not on this machine, skip */
    void (*destroy)(void *self);
    const weir_device_ops *(*ops)(void *self);
    uint64_t (*stream_create)(void *self);
    uint64_t (*stream_unique)(void *self, uint64_t stream);
    void (*stream_destroy)(void *self, uint64_t stream);
    /* Queues work that fills the range with a pattern made from `tag`, or that counts as errors
     * where the range is not what a write of the same range and tag left. */
    void (*write)(void *self, uint64_t stream, weir_addr addr, uint64_t bytes, uint64_t tag);
    void (*verify)(void *self, uint64_t stream, weir_addr addr, uint64_t bytes, uint64_t tag);
    /* Queues work that ends about `busy_us` from now, not sooner. */
    void (*busy)(void *self, uint64_t stream, uint64_t busy_us);
    void (*sync)(void *self); /* waits for all streams */
    uint64_t (*errors)(void *self);
    const char *(*balance)(void *self); /* NULL: all was given back */
} weir_conformance_device;

/* The devices under test; the last is NULL. */
extern const weir_conformance_device *const weir_conformance_devices[];

/* One device under test. */
typedef struct conformance_rig {
    const weir_conformance_device *device;
    void *self;
    const weir_device_ops *ops;
    weir_device_info info;
    uint64_t granule; /* bytes */
} conformance_rig;

/* open skips the test where there is no such device. */
conformance_rig weir_conformance_open(size_t index);
void weir_conformance_close(conformance_rig *rig);
struct criterion_test_params weir_conformance_params(void);

/* Memory with access at an address of its own, by whichever group of calls the device has. */
typedef struct conformance_memory {
    weir_addr addr;
    uint64_t bytes;
    weir_handle handle; /* 0: a segment */
} conformance_memory;

conformance_memory weir_conformance_take(const conformance_rig *rig, uint64_t bytes);
void weir_conformance_drop(const conformance_rig *rig, conformance_memory memory);

/* Later work on `to` comes after all work so far on `from`. */
void weir_conformance_order(const conformance_rig *rig, uint64_t from, uint64_t to);
weir_event weir_conformance_record(const conformance_rig *rig, uint64_t stream);
bool weir_conformance_passed(const conformance_rig *rig, weir_event event);

#define EXPECT_OK(call) cr_expect_eq((call), WEIR_OK, "%s", #call)
#define ASSERT_OK(call) cr_assert_eq((call), WEIR_OK, "%s", #call)

/* A test of every device: the body sees `rig`. */
#define CONFORMANCE(suite, name) \
    static void suite##_##name##_body(const conformance_rig *rig); \
    ParameterizedTestParameters(suite, name) \
    { \
        return weir_conformance_params(); \
    } \
    ParameterizedTest(size_t *index, suite, name) \
    { \
        conformance_rig rig = weir_conformance_open(*index); \
        suite##_##name##_body(&rig); \
        weir_conformance_close(&rig); \
    } \
    static void suite##_##name##_body(const conformance_rig *rig)

#endif
