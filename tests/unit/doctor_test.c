/* SPDX-License-Identifier: MIT */
/* The doctor on a machine without a GPU, and how a report looks. tests/cuda has it with one. */
#define _POSIX_C_SOURCE 200809L
#include "doctor.h"

#include "tree.h"

#include <criterion/criterion.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

static void doctor_test_start(void)
{
    (void)unsetenv("WEIR_CONF");
    (void)setenv("WEIR_CUDA_LIBRARY", "/there/is/no/libcuda.so.1", 1);
}

TestSuite(doctor, .init = doctor_test_start);

/* The report's text; the caller frees it. */
static char *doctor_test_report(bool json, int device, int *code, weir_fault *fault)
{
    const weir_doctor_options options = {.json = json, .device = device};
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);

    cr_assert_not_null(out);
    fault->text[0] = '\0';
    *code = weir_doctor_report(out, &options, fault);
    (void)fclose(out);
    return text;
}

/* Follows keys into an object; NULL is null. */
static struct json_object *doctor_test_get(struct json_object *object, const char *a, const char *b)
{
    struct json_object *part = NULL, *found = NULL;

    cr_assert(json_object_object_get_ex(object, a, &part), "no %s", a);
    cr_assert(json_object_object_get_ex(part, b, &found), "no %s in %s", b, a);
    return found;
}

static const char *doctor_test_text(struct json_object *object, const char *a, const char *b)
{
    const char *text = json_object_get_string(doctor_test_get(object, a, b));
    return text == NULL ? "" : text;
}

Test(doctor, no_driver_is_said_plainly_and_is_no_failure)
{
    weir_fault fault;
    int code;
    char *text = doctor_test_report(true, -1, &code, &fault);
    struct json_object *report = json_tokener_parse(text);
    cr_assert_not_null(report, "%s", text);
    cr_expect_eq(code, WEIR_EXIT_OK);
    cr_expect_str_eq(fault.text, "");
    cr_expect_not(json_object_get_boolean(doctor_test_get(report, "driver", "found")));
    cr_expect_str_neq(doctor_test_text(report, "driver", "why"), "");
    cr_expect_eq(json_object_array_length(json_object_object_get(report, "devices")), 0);
    cr_expect_str_eq(doctor_test_text(report, "will_use", "backend"), "sim");
    cr_expect_str_neq(doctor_test_text(report, "will_use", "why"), "");
    cr_expect_str_eq(json_object_get_string(json_object_object_get(report, "schema")),
                     "weir.doctor/1");
    json_object_put(report);
    free(text);
}

Test(doctor, settings_decide_what_is_used)
{
    weir_fault fault;
    int code;
    (void)setenv("WEIR_CONF", "backend:host,moves:false,limit_mb:64", 1);
    char *text = doctor_test_report(true, -1, &code, &fault);
    struct json_object *report = json_tokener_parse(text), *off;
    cr_assert_not_null(report);
    cr_expect_eq(code, WEIR_EXIT_OK);
    cr_expect_str_eq(doctor_test_text(report, "will_use", "backend"), "host");
    cr_expect_not_null(strstr(doctor_test_text(report, "settings", "in_force"), "limit_mb:64"));
    off = json_object_array_get_idx(doctor_test_get(report, "settings", "off"), 0);
    cr_expect_str_eq(json_object_get_string(json_object_object_get(off, "why")),
                     "the settings say moves:false");
    json_object_put(report);
    free(text);
}

Test(doctor, a_misspelt_setting_is_told_in_the_report_and_ends_with_2)
{
    weir_fault fault;
    int code;
    (void)setenv("WEIR_CONF", "expandeable_segments:True", 1);
    char *text = doctor_test_report(true, -1, &code, &fault);
    struct json_object *report = json_tokener_parse(text);
    cr_assert_not_null(report);
    cr_expect_eq(code, WEIR_EXIT_USAGE);
    cr_expect_not_null(strstr(fault.text, "the nearest valid key is expandable_segments"));
    cr_expect_str_eq(doctor_test_text(report, "settings", "error"), fault.text);
    cr_expect_null(doctor_test_get(report, "will_use", "backend"), "no pool can be made so");
    json_object_put(report);
    free(text);
}

Test(doctor, cuda_that_is_asked_for_and_not_here_ends_with_1)
{
    weir_fault fault;
    int code;
    (void)setenv("WEIR_CONF", "backend:cuda", 1);
    free(doctor_test_report(true, -1, &code, &fault));
    cr_expect_eq(code, WEIR_EXIT_FAILED);
    cr_expect_str_eq(fault.text,
                     "the settings say backend:cuda, but there is no CUDA device for it");
    (void)unsetenv("WEIR_CONF");
    free(doctor_test_report(true, 0, &code, &fault));
    cr_expect_eq(code, WEIR_EXIT_FAILED);
    cr_expect_str_eq(fault.text, "there is no CUDA device 0: the driver sees 0 of them");
}

Test(doctor, people_get_the_same_facts)
{
    weir_fault fault;
    int code;
    char *text = doctor_test_report(false, -1, &code, &fault);
    cr_expect_eq(code, WEIR_EXIT_OK);
    cr_expect_not_null(strstr(text, "\nwill use\n  backend                sim\n"), "%s", text);
    cr_expect_not_null(strstr(text, "\ndriver\n  found                  no\n"), "%s", text);
    cr_expect_null(strstr(text, "schema"), "that is for machines");
    free(text);
}

static char *doctor_test_tree(const weir_object *object)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);

    cr_assert_not_null(out);
    cr_assert(weir_tree_print(out, object));
    (void)fclose(out);
    return text;
}

Test(doctor, facts_have_the_unit_of_their_key)
{
    weir_object object = weir_object_new();
    weir_object_count(&object, "pool_bytes", UINT64_C(141) << 30);
    weir_object_count(&object, "page_bytes", 4096);
    weir_object_count(&object, "odd_bytes", 1025);
    weir_object_count(&object, "took_us", 7);
    weir_object_count(&object, "devices", 8);
    weir_object_flag(&object, "found", true);
    weir_object_null(&object, "why");
    char *text = doctor_test_tree(&object);
    cr_expect_str_eq(text, "pool                   144384 MiB\n"
                           "page                   4 KiB\n"
                           "odd                    1025 bytes\n"
                           "took                   7 us\n"
                           "devices                8\n"
                           "found                  yes\n"
                           "why                    none\n");
    free(text);
    weir_object_free(&object);
}

Test(doctor, lists_are_lines_of_words_reasons_or_numbered_parts)
{
    weir_object object = weir_object_new(), reason = weir_object_new(), part = weir_object_new();
    weir_object_append_text(&object, "peers", "1");
    weir_object_append_text(&object, "peers", "3");
    weir_object_list(&object, "empty");
    weir_object_text(&reason, "what", "moves");
    weir_object_text(&reason, "why", "the settings say moves:false");
    weir_object_append(&object, "off", reason);
    weir_object_count(&part, "ordinal", 5);
    weir_object_append(&object, "devices", part);
    char *text = doctor_test_tree(&object);
    cr_expect_str_eq(text, "peers                  1, 3\n"
                           "empty                  none\n"
                           "off\n"
                           "  moves: the settings say moves:false\n"
                           "device 5\n"
                           "  ordinal                5\n");
    free(text);
    weir_object_free(&object);
}
