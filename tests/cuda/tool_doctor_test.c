/* SPDX-License-Identifier: MIT */
/* The doctor on machines with GPUs: what it finds, what it would use, what it says is off. */
#define _POSIX_C_SOURCE 200809L
#include "doctor.h"

#include "fakecuda.h"

#include <criterion/criterion.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

typedef struct tool_doctor {
    struct json_object *report;
    int code;
    weir_fault fault;
} tool_doctor;

static void tool_doctor_start(void)
{
    (void)unsetenv("WEIR_CONF");
    (void)setenv("WEIR_CUDA_LIBRARY", weir_fakecuda_path(), 1);
    weir_fakecuda_reset(NULL);
}

/* Looking changes nothing: all is given back, and the driver was used as it wants to be used. */
static void tool_doctor_end(void)
{
    const char *breach = weir_fakecuda_breach(), *left = weir_fakecuda_balance();
    cr_expect_null(breach, "%s", breach);
    cr_expect_null(left, "%s", left);
}

TestSuite(tool_doctor, .init = tool_doctor_start);

static void tool_doctor_see(tool_doctor *doctor, int device)
{
    const weir_doctor_options options = {.json = true, .device = device};
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);

    cr_assert_not_null(out);
    doctor->fault.text[0] = '\0';
    doctor->code = weir_doctor_report(out, &options, &doctor->fault);
    (void)fclose(out);
    doctor->report = json_tokener_parse(text);
    cr_assert_not_null(doctor->report, "%s", text);
    free(text);
}

/* What stands behind the keys, at most three deep; a number is a place in a list. */
static struct json_object *tool_doctor_get(const tool_doctor *doctor, const char *const *keys)
{
    struct json_object *at = doctor->report;

    for (; *keys != NULL; keys++) {
        if (json_object_is_type(at, json_type_array))
            at = json_object_array_get_idx(at, (size_t)atoi(*keys));
        else cr_assert(json_object_object_get_ex(at, *keys, &at), "there is no %s", *keys);
    }
    return at;
}

#define GET(...) tool_doctor_get(&doctor, (const char *const[]){__VA_ARGS__, NULL})
#define TEXT(...) json_object_get_string(GET(__VA_ARGS__))
#define COUNT(...) json_object_get_uint64(GET(__VA_ARGS__))
#define FLAG(...) json_object_get_boolean(GET(__VA_ARGS__))

/* The reason why something is off; NULL: it is not. */
static const char *tool_doctor_off(struct json_object *list, const char *what)
{
    for (size_t i = 0; i < json_object_array_length(list); i++) {
        struct json_object *reason = json_object_array_get_idx(list, i);
        const char *off = json_object_get_string(json_object_object_get(reason, "what"));
        if (strcmp(off, what) == 0)
            return json_object_get_string(json_object_object_get(reason, "why"));
    }
    return NULL;
}

Test(tool_doctor, every_device_is_described_and_tried)
{
    tool_doctor doctor;
    tool_doctor_see(&doctor, -1);
    cr_expect_eq(doctor.code, WEIR_EXIT_OK, "%s", doctor.fault.text);
    cr_expect_str_eq(TEXT("driver", "cuda_version"), "13.0");
    cr_assert_eq(json_object_array_length(GET("devices")), 2);
    for (unsigned i = 0; i < 2; i++) {
        const char *place = i == 0 ? "0" : "1";
        cr_expect_eq(COUNT("devices", place, "ordinal"), i);
        cr_expect_eq(strlen(TEXT("devices", place, "uuid")), 40);
        cr_expect_str_eq(TEXT("devices", place, "compute_capability"), "9.0");
        cr_expect_eq(COUNT("devices", place, "memory_bytes"), UINT64_C(512) << 20);
        cr_expect_eq(COUNT("devices", place, "granularity_bytes"), UINT64_C(2) << 20);
        cr_expect(FLAG("devices", place, "virtual_memory"));
        cr_expect_str_eq(TEXT("devices", place, "use", "source"), "vmm");
        cr_expect(FLAG("devices", place, "self_test", "passed"));
        cr_expect_eq(json_object_array_length(GET("devices", place, "off")), 0);
    }
    cr_expect_str_eq(TEXT("devices", "0", "peers", "0"), "1");
    cr_expect_str_eq(TEXT("will_use", "backend"), "cuda");
    cr_expect_eq(COUNT("will_use", "device"), 0);
    cr_expect_str_eq(TEXT("will_use", "replays"), "sim", "a replay is told where to go");
    json_object_put(doctor.report);
    tool_doctor_end();
}

Test(tool_doctor, one_device_can_be_looked_at_alone)
{
    tool_doctor doctor;
    tool_doctor_see(&doctor, 1);
    cr_expect_eq(doctor.code, WEIR_EXIT_OK);
    cr_assert_eq(json_object_array_length(GET("devices")), 1);
    cr_expect_eq(COUNT("devices", "0", "ordinal"), 1);
    cr_expect_eq(COUNT("will_use", "device"), 1);
    json_object_put(doctor.report);
    tool_doctor_see(&doctor, 2);
    cr_expect_eq(doctor.code, WEIR_EXIT_FAILED);
    cr_expect_str_eq(doctor.fault.text, "there is no CUDA device 2: the driver sees 2 of them");
    json_object_put(doctor.report);
    tool_doctor_end();
}

Test(tool_doctor, a_source_that_is_lacking_is_replaced_and_told)
{
    const weir_fakecuda_config no_vmm = {.no_vmm = true, .devices = 1};
    const weir_fakecuda_config neither = {.no_vmm = true, .no_pools = true, .devices = 1};
    tool_doctor doctor;
    weir_fakecuda_reset(&no_vmm);
    tool_doctor_see(&doctor, -1);
    cr_expect_eq(doctor.code, WEIR_EXIT_OK);
    cr_expect_str_eq(TEXT("will_use", "source"), "async");
    cr_expect_str_eq(TEXT("devices", "0", "use", "why"),
                     "source:vmm is asked for, and the device lacks it; this is the next");
    cr_expect_not_null(
        tool_doctor_off(GET("devices", "0", "off"), "source:vmm, and with it moves"));
    json_object_put(doctor.report);
    weir_fakecuda_reset(&neither);
    tool_doctor_see(&doctor, -1);
    cr_expect_str_eq(TEXT("will_use", "source"), "malloc");
    cr_expect(FLAG("devices", "0", "self_test", "passed"));
    json_object_put(doctor.report);
    tool_doctor_end();
}

Test(tool_doctor, settings_choose_the_source)
{
    tool_doctor doctor;
    (void)setenv("WEIR_CONF", "backend:cuda,source:malloc", 1);
    tool_doctor_see(&doctor, 0);
    cr_expect_eq(doctor.code, WEIR_EXIT_OK);
    cr_expect_str_eq(TEXT("will_use", "source"), "malloc");
    cr_expect_str_eq(TEXT("will_use", "why"), "the settings say backend:cuda");
    cr_expect_not_null(tool_doctor_off(GET("devices", "0", "off"), "moves"));
    json_object_put(doctor.report);
    tool_doctor_end();
}

Test(tool_doctor, an_export_that_is_promised_and_refused_is_told)
{
    const weir_fakecuda_config refused = {.refuse_export = true, .devices = 1};
    const weir_fakecuda_config lacking = {
        .no_posix_fd = true, .no_dma_buf = true, .no_rdma = true, .devices = 1};
    tool_doctor doctor;
    weir_fakecuda_reset(&refused);
    tool_doctor_see(&doctor, -1);
    cr_expect_eq(doctor.code, WEIR_EXIT_OK, "Weir does without");
    cr_expect_not_null(
        strstr(tool_doctor_off(GET("devices", "0", "off"), "export as a file descriptor"),
               "the device promises it, but"));
    json_object_put(doctor.report);
    weir_fakecuda_reset(&lacking);
    tool_doctor_see(&doctor, -1);
    cr_expect_str_eq(tool_doctor_off(GET("devices", "0", "off"), "export as a file descriptor"),
                     "the device says that it cannot");
    cr_expect_not_null(tool_doctor_off(GET("devices", "0", "off"), "export as a dma-buf"));
    cr_expect_not_null(tool_doctor_off(GET("devices", "0", "off"), "registration for RDMA"));
    json_object_put(doctor.report);
    tool_doctor_end();
}

Test(tool_doctor, an_old_driver_has_functions_missing)
{
    tool_doctor doctor;
    weir_fakecuda_hide("cuStreamGetId");
    weir_fakecuda_hide("cuUserObjectCreate");
    weir_fakecuda_hide("cuCtxRecordEvent");
    tool_doctor_see(&doctor, 0);
    cr_expect_not(FLAG("driver", "stream_ids"));
    cr_expect_eq(json_object_array_length(GET("driver", "functions_missing")), 3);
    cr_expect_eq(json_object_array_length(GET("driver", "off")), 3);
    cr_expect_not_null(
        tool_doctor_off(GET("driver", "off"), "allocating while a stream is captured"));
    cr_expect(FLAG("devices", "0", "self_test", "passed"));
    json_object_put(doctor.report);
    tool_doctor_end();
}

/* A trial that fails at any call of the driver is told, ends with 1, and leaves nothing behind. */
Test(tool_doctor, a_self_test_that_fails_says_where)
{
    static const struct {
        const char *call;
        const char *step;
    } trials[] = {{"cuMemCreate", "a pool of 64 MiB"},
                  {"cuModuleLoadData", "loading kernels"},
                  {"cuLaunchKernel", "a kernel that writes"},
                  {"cuCtxSynchronize", "the work of the kernels"},
                  {"cuMemMap", "a pool of 64 MiB"}};
    const weir_fakecuda_config one = {.devices = 1};
    tool_doctor doctor;
    for (size_t i = 0; i < sizeof trials / sizeof trials[0]; i++) {
        weir_fakecuda_reset(&one);
        weir_fakecuda_fail(trials[i].call, 1, WEIR_CU_NOT_PERMITTED, true);
        tool_doctor_see(&doctor, -1);
        cr_assert(weir_fakecuda_failed(), "%s was never called", trials[i].call);
        cr_expect_eq(doctor.code, WEIR_EXIT_FAILED, "%s", trials[i].call);
        cr_expect_str_eq(doctor.fault.text, "a device failed its self-test");
        cr_expect_not(FLAG("devices", "0", "self_test", "passed"));
        cr_expect_not_null(strstr(TEXT("devices", "0", "self_test", "why"), trials[i].step),
                           "%s: %s", trials[i].call, TEXT("devices", "0", "self_test", "why"));
        json_object_put(doctor.report);
    }
    tool_doctor_end();
}

Test(tool_doctor, a_device_that_is_too_old_has_no_pool)
{
    const weir_fakecuda_config old = {.major = 6, .devices = 1};
    tool_doctor doctor;
    weir_fakecuda_reset(&old);
    tool_doctor_see(&doctor, -1);
    cr_expect_eq(doctor.code, WEIR_EXIT_OK, "nobody asked for it");
    cr_expect_null(GET("devices", "0", "use", "source"));
    cr_expect_not_null(strstr(TEXT("devices", "0", "use", "why"), "Weir needs 7.0"));
    cr_expect_null(GET("devices", "0", "self_test"));
    cr_expect_str_eq(TEXT("will_use", "backend"), "sim");
    json_object_put(doctor.report);
    tool_doctor_end();
}

Test(tool_doctor, a_driver_without_devices_is_no_driver_to_use)
{
    const weir_fakecuda_config none = {.devices = -1};
    tool_doctor doctor;
    weir_fakecuda_reset(&none);
    tool_doctor_see(&doctor, -1);
    cr_expect_eq(doctor.code, WEIR_EXIT_OK);
    cr_expect_not(FLAG("driver", "found"));
    cr_expect_not_null(strstr(TEXT("driver", "why"), "sees no device"));
    cr_expect_str_eq(TEXT("will_use", "backend"), "sim");
    json_object_put(doctor.report);
    tool_doctor_end();
}
