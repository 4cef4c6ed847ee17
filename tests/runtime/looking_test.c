/* SPDX-License-Identifier: MIT */
/* The summary, leaks, history, stacks and the recorded trace. */
#define _GNU_SOURCE
#include "runtime_rig.h"
#include "trace.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

static char *looking_text(size_t (*say)(int device, char *text, size_t room))
{
    size_t length = say(0, NULL, 0);
    char *text = (char *)malloc(length + 1);
    cr_assert_eq(say(0, text, length + 1), length);
    cr_assert_eq(strlen(text), length);
    return text;
}

static unsigned looking_lines(const char *text, size_t width)
{
    unsigned lines = 0;
    for (const char *at = text; *at == '|'; lines++) {
        const char *end = strchr(at, '\n');
        cr_assert_not_null(end);
        cr_expect_eq((size_t)(end - at), width, "%.*s", (int)(end - at), at);
        at = end + 1;
    }
    return lines;
}

Test(looking, the_summary_is_a_table)
{
    runtime_rig_open("limit_mb:64", NULL);
    uint64_t addr = runtime_rig_alloc(3 * MIB);
    char *text = looking_text(weir_runtime_summary);
    cr_expect_gt(looking_lines(text, 77), 15, "%s", text);
    cr_expect_not_null(strstr(text, "| Allocated memory      |   3072 KiB |"), "%s", text);
    cr_expect_not_null(strstr(text, "limit: 64.00 MiB"), "%s", text);
    free(text);
    runtime_rig_free(addr);
    runtime_rig_close();
}

static size_t looking_all_leaks(int device, char *text, size_t room)
{
    return weir_runtime_leaks(device, 0, text, room);
}

static size_t looking_top_leak(int device, char *text, size_t room)
{
    return weir_runtime_leaks(device, 1, text, room);
}

Test(looking, leaks_are_grouped_and_the_largest_sum_comes_first)
{
    uint64_t addr[4];
    runtime_rig_open(NULL, NULL);
    addr[0] = runtime_rig_alloc(5 * MIB);
    for (unsigned i = 1; i < 4; i++) {
        addr[i] = runtime_rig_alloc(2 * MIB);
    }
    char *text = looking_text(looking_all_leaks);
    cr_expect_not_null(strstr(text, "4 live blocks, 11.00 MiB"), "%s", text);
    char *threes = strstr(text, "6.00 MiB in 3 blocks of 2.00 MiB");
    char *one = strstr(text, "5.00 MiB in 1 block,");
    cr_expect(threes && one && threes < one, "%s", text);
    free(text);
    text = looking_text(looking_top_leak);
    cr_expect_null(strstr(text, "5.00 MiB in"), "%s", text);
    cr_expect_not_null(strstr(text, "and 1 more groups"), "%s", text);
    free(text);
    for (unsigned i = 0; i < 4; i++) {
        runtime_rig_free(addr[i]);
    }
    text = looking_text(looking_all_leaks);
    cr_expect_not_null(strstr(text, "0 live blocks"), "%s", text);
    free(text);
    runtime_rig_close();
}

static uint32_t looking_stack(void *self)
{
    static const char *const file[] = {"model.py", "train.py"};
    static const char *const name[] = {"forward", "main"};
    static const int line[] = {12, 40};
    ++*(unsigned *)self;
    return weir_runtime_stack(file, line, name, 2);
}

Test(looking, a_leak_names_the_line_while_history_is_kept)
{
    unsigned asked = 0;
    runtime_rig_open(NULL, NULL);
    weir_runtime_stack_from(looking_stack, &asked);
    uint64_t before = runtime_rig_alloc(MIB);
    cr_expect_eq(asked, 0);
    ASSERT_OK(weir_runtime_history(1000));
    uint64_t leak = runtime_rig_alloc(MIB);
    cr_expect_eq(asked, 1);
    char *text = looking_text(looking_all_leaks);
    cr_expect_not_null(strstr(text, "forward (model.py:12)"), "%s", text);
    cr_expect_not_null(strstr(text, "main (train.py:40)"), "%s", text);
    free(text);
    weir_runtime_stack_from(NULL, NULL);
    ASSERT_OK(weir_runtime_history(0));
    runtime_rig_free(before);
    runtime_rig_free(leak);
    runtime_rig_close();
}

Test(looking, a_stack_has_one_number)
{
    unsigned asked = 0;
    const char *const other = "other.py", *const name = "forward";
    const int line = 12;
    runtime_rig_open(NULL, NULL);
    uint32_t first = looking_stack(&asked);
    cr_expect_neq(first, 0);
    cr_expect_eq(looking_stack(&asked), first);
    cr_expect_neq(weir_runtime_stack(&other, &line, &name, 1), first);
    runtime_rig_close();
}

Test(looking, a_leak_has_a_machine_s_stack_where_the_environment_asks)
{
    Dl_info here;
    setenv("WEIR_LEAKS", "stacks", 1);
    runtime_rig_open(NULL, NULL);
    uint64_t leak = runtime_rig_alloc(MIB), other = runtime_rig_alloc(MIB);
    char *text = looking_text(looking_all_leaks);
    cr_assert_neq(dladdr((void *)(uintptr_t)looking_text, &here), 0);
    cr_expect_not_null(strstr(text, here.dli_fname), "%s is not in %s", here.dli_fname, text);
    cr_expect_not_null(strstr(text, "+0x"), "%s", text);
    cr_expect_null(strstr(text, "libweir_runtime"), "%s", text);
    cr_expect_null(strstr(text, "in 2 blocks"), "two calls of one function are two: %s", text);
    free(text);
    unsetenv("WEIR_LEAKS"); /* this process need not print them at its end */
    ASSERT_OK(weir_runtime_history(0));
    runtime_rig_free(leak);
    runtime_rig_free(other);
    runtime_rig_close();
}

Test(looking, a_loop_leaks_from_one_stack)
{
    uint64_t leak[50];
    runtime_rig_open(NULL, NULL);
    weir_runtime_stack_from(weir_runtime_stack_native, NULL);
    ASSERT_OK(weir_runtime_history(1));
    for (unsigned i = 0; i < 50; i++) {
        ASSERT_OK(weir_runtime_alloc(0, KIB * (i + 1), 0, &leak[i]));
    }
    char *text = looking_text(looking_all_leaks);
    cr_expect_not_null(strstr(text, "in 50 blocks"), "%s", text);
    free(text);
    weir_runtime_stack_from(NULL, NULL);
    ASSERT_OK(weir_runtime_history(0));
    for (unsigned i = 0; i < 50; i++) {
        runtime_rig_free(leak[i]);
    }
    runtime_rig_close();
}

/* How often a text stands in the JSON of a snapshot made now. */
static unsigned looking_count(const char *what)
{
    char path[64];
    snprintf(path, sizeof(path), "/tmp/weir-snapshot-%ld.json", (long)getpid());
    ASSERT_OK(weir_runtime_snapshot(path));
    FILE *file = fopen(path, "r");
    char *text = NULL;
    size_t room = 0;
    cr_assert(getdelim(&text, &room, '\0', file) > 0);
    unsigned count = 0;
    for (const char *at = text; (at = strstr(at, what)); at++) {
        count++;
    }
    fclose(file);
    free(text);
    unlink(path);
    return count;
}

Test(looking, history_keeps_the_last_operations)
{
    runtime_rig_open(NULL, NULL);
    ASSERT_OK(weir_runtime_history(5000));
    for (unsigned i = 0; i < 3000; i++) { /* two operations each */
        ASSERT_OK(weir_runtime_metadata(i < 100 ? "old" : ""));
        runtime_rig_free(runtime_rig_alloc(KIB * (i % 7 + 1)));
    }
    cr_expect_eq(looking_count("\"alloc\""), 2500);
    cr_expect_eq(looking_count("\"free_requested\""), 2500);
    cr_expect_eq(looking_count("\"old\""), 0, "what was overwritten is shown");
    ASSERT_OK(weir_runtime_history(UINT64_MAX));
    ASSERT_OK(weir_runtime_metadata("step 7"));
    for (unsigned i = 0; i < 3000; i++) {
        runtime_rig_free(runtime_rig_alloc(KIB));
    }
    cr_expect_eq(looking_count("\"alloc\""), 3000);
    cr_expect_eq(looking_count("\"user_metadata\":\"step 7\""), 9000); /* a free is two entries */
    ASSERT_OK(weir_runtime_metadata(NULL));
    ASSERT_OK(weir_runtime_history(0));
    cr_expect_eq(looking_count("\"alloc\""), 0);
    runtime_rig_close();
}

Test(looking, a_snapshot_tells_the_caller_s_pool)
{
    runtime_rig_open(NULL, NULL);
    ASSERT_OK(weir_runtime_pool_begin(0, 41, 42, NULL, NULL));
    uint64_t inside = runtime_rig_alloc(4 * MIB);
    ASSERT_OK(weir_runtime_pool_end(0, 41, 42));
    uint64_t outside = runtime_rig_alloc(4 * MIB);
    cr_expect_eq(looking_count("\"segment_pool_id\":[41,42]"), 1);
    cr_expect_geq(looking_count("\"segment_pool_id\":[0,0]"), 1);
    runtime_rig_free(inside);
    runtime_rig_free(outside);
    ASSERT_OK(weir_runtime_pool_release(0, 41, 42));
    runtime_rig_close();
}

static void looking_path(char *path, size_t room)
{
    snprintf(path, room, "/tmp/weir-trace-%ld", (long)getpid());
}

static weir_trace looking_read(const char *path)
{
    weir_trace trace;
    weir_fault fault;
    memset(&fault, 0, sizeof(fault));
    cr_assert(weir_trace_read(path, &trace, &fault), "%s", fault.text);
    return trace;
}

Test(looking, a_recorded_run_can_be_replayed)
{
    char path[64];
    looking_path(path, sizeof(path));
    runtime_rig_open(NULL, NULL);
    uint64_t unseen = runtime_rig_alloc(MIB); /* not in the file, nor is its free */
    ASSERT_OK(weir_runtime_trace(path));
    EXPECT_STATUS(weir_runtime_trace(path), WEIR_BUSY);
    uint64_t first = runtime_rig_alloc(3 * MIB);
    uint64_t second = runtime_rig_alloc(1000);
    runtime_rig_free(unseen);
    runtime_rig_free(first);
    ASSERT_OK(weir_runtime_trace(NULL));
    runtime_rig_free(second);
    weir_trace trace = looking_read(path);
    cr_expect_eq(trace.count, 3);
    cr_expect_eq(trace.ops[0].kind, WEIR_TRACE_ALLOC);
    cr_expect_eq(trace.ops[0].bytes, 3 * MIB);
    cr_expect_eq(trace.ops[1].bytes, 1000);
    cr_expect_eq(trace.ops[2].kind, WEIR_TRACE_FREE);
    cr_expect_eq(trace.ops[2].slot, trace.ops[0].slot);
    cr_expect_eq(trace.peak_requested_bytes, 3 * MIB + 1000);
    weir_trace_free(&trace);
    unlink(path);
    runtime_rig_close();
}

Test(looking, a_trace_names_streams_by_their_handles)
{
    char path[64], line[128], expected[128];
    uint64_t addr = 0;
    looking_path(path, sizeof(path));
    runtime_rig_open(NULL, NULL);
    uint64_t stream = runtime_rig_stream();
    ASSERT_OK(weir_runtime_trace(path));
    ASSERT_OK(weir_runtime_alloc(0, 70000, stream, &addr));
    ASSERT_OK(weir_runtime_free(addr, 0)); /* a block's lines name the stream it was allocated on */
    ASSERT_OK(weir_runtime_trace(NULL));
    FILE *file = fopen(path, "r");
    for (const char *op = "#af"; *op != '\0'; op++) {
        snprintf(expected, sizeof(expected), "%c,1,70000,0x%" PRIx64 ",", *op, stream);
        cr_assert_not_null(fgets(line, sizeof(line), file));
        cr_expect(*op == '#' || strncmp(line, expected, strlen(expected)) == 0, "%s", line);
    }
    fclose(file);
    unlink(path);
    ASSERT_OK(weir_runtime_stream_end(stream));
    runtime_rig_stream_destroy(stream);
    runtime_rig_close();
}

static void looking_other(char *path, size_t room)
{
    snprintf(path, room, "/tmp/weir-trace-%ld.%ld", (long)getpid(), (long)getpid());
}

/* All processes of a job have the same environment. */
Test(looking, a_file_that_another_process_records_to_is_left_alone)
{
    char path[64], other[64];
    looking_path(path, sizeof(path));
    looking_other(other, sizeof(other));
    runtime_rig_open(NULL, NULL);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    cr_assert_eq(write(fd, "theirs", 6), 6);
    cr_assert_eq(flock(fd, LOCK_EX | LOCK_NB), 0);
    ASSERT_OK(weir_runtime_trace(path));
    runtime_rig_free(runtime_rig_alloc(MIB));
    ASSERT_OK(weir_runtime_trace(NULL));
    cr_expect_eq(lseek(fd, 0, SEEK_END), 6);
    weir_trace trace = looking_read(other);
    cr_expect_eq(trace.count, 2);
    weir_trace_free(&trace);
    close(fd);
    unlink(path);
    unlink(other);
    runtime_rig_close();
}

Test(looking, the_environment_records_from_the_first_pool_on)
{
    char path[64];
    looking_path(path, sizeof(path));
    setenv("WEIR_TRACE", path, 1);
    runtime_rig_open(NULL, NULL);
    cr_expect_neq(access(path, F_OK), 0, "a file although there is nothing to record");
    runtime_rig_free(runtime_rig_alloc(MIB));
    ASSERT_OK(weir_runtime_trace(NULL));
    weir_trace trace = looking_read(path);
    cr_expect_eq(trace.count, 2);
    weir_trace_free(&trace);
    unlink(path);
    runtime_rig_close();
}

/* A block that one file saw born is not told to another. */
Test(looking, a_second_trace_knows_nothing_of_the_first)
{
    char path[64];
    looking_path(path, sizeof(path));
    runtime_rig_open(NULL, NULL);
    ASSERT_OK(weir_runtime_trace(path));
    uint64_t first = runtime_rig_alloc(MIB);
    ASSERT_OK(weir_runtime_trace(NULL));
    ASSERT_OK(weir_runtime_trace(path));
    uint64_t second = runtime_rig_alloc(2 * MIB);
    runtime_rig_free(first);
    runtime_rig_free(second);
    ASSERT_OK(weir_runtime_trace(NULL));
    weir_trace trace = looking_read(path);
    cr_expect_eq(trace.count, 2);
    weir_trace_free(&trace);
    unlink(path);
    runtime_rig_close();
}

Test(looking, a_trace_that_cannot_be_written_is_an_error)
{
    runtime_rig_open(NULL, NULL);
    EXPECT_STATUS(weir_runtime_trace("/no/such/folder/trace.csv"), WEIR_DEVICE);
    EXPECT_SAYS("/no/such/folder/trace.csv");
    ASSERT_OK(weir_runtime_trace("/dev/full"));
    runtime_rig_free(runtime_rig_alloc(MIB));
    EXPECT_STATUS(weir_runtime_trace(NULL), WEIR_DEVICE);
    EXPECT_STATUS(weir_runtime_snapshot("/dev/full"), WEIR_DEVICE);
    EXPECT_STATUS(weir_runtime_snapshot(NULL), WEIR_DEVICE);
    runtime_rig_close();
}
