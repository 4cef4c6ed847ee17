/* SPDX-License-Identifier: MIT */
/* Records of other programs as traces: what is read, and what is refused. */
#define _GNU_SOURCE
#include "trace.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool foreign_read(const void *data, size_t bytes, weir_trace *trace, weir_fault *fault)
{
    char path[64];
    snprintf(path, sizeof path, "/tmp/weir-foreign-%ld", (long)getpid());
    FILE *file = fopen(path, "wb");
    cr_assert(file != NULL && fwrite(data, 1, bytes, file) == bytes && fclose(file) == 0);
    memset(fault, 0, sizeof *fault);
    bool good = weir_trace_read(path, trace, fault);
    unlink(path);
    return good;
}

static void foreign_refuses(const void *data, size_t bytes, const char *reason)
{
    weir_trace trace;
    weir_fault fault;
    cr_expect_not(foreign_read(data, bytes, &trace, &fault), "expected: %s", reason);
    cr_expect_not_null(strstr(fault.text, reason), "'%s' lacks '%s'", fault.text, reason);
}

#define REFUSES(literal, reason) foreign_refuses(literal, sizeof(literal) - 1, reason)

Test(foreign, a_log_of_rmm_is_a_trace)
{
    static const char log[] =
        "Thread,Time,Action,Pointer,Size,Stream\n"
        "1,23:59:59.500000,allocate,0x7f00,1024,0x0\n"
        "1,23:59:59.600000,free,0x1234,64,0x0\n" /* before the log began */
        "2,23:59:59.700000,allocate failure,(nil),99999,0x5\n"
        "2,00:00:00.500000,allocate,0x8f00,4096,0x5\r\n" /* past midnight */
        "1,00:00:00.400000,free,0x7f00,1024,0x0\n"       /* another thread's clock */
        "1,00:00:01.000000,allocate,0x7f00,2048,0x0\n"
        "1,00:00:02.000000,free,0x7f00,2048,0x0\n";
    weir_trace trace;
    weir_fault fault;
    cr_assert(foreign_read(log, sizeof log - 1, &trace, &fault), "%s", fault.text);
    cr_assert_eq(trace.count, 5);
    cr_expect_eq(trace.streams, 2);
    cr_expect_eq(trace.ops[0].bytes, 1024);
    cr_expect_eq(trace.ops[1].time_us, 1000000);
    cr_expect_eq(trace.ops[2].kind, WEIR_TRACE_FREE);
    cr_expect_eq(trace.ops[2].time_us, 1000000);
    cr_expect_eq(trace.ops[3].bytes, 2048);
    cr_expect_eq(trace.ops[4].time_us, 2500000);
    weir_trace_free(&trace);
}

Test(foreign, a_bad_line_of_a_log_is_named)
{
    REFUSES("Thread,Time,Action,Pointer,Size,Stream\n1,10:00:00.0,allocate,0x1,12\n",
            ":2: not a line");
    REFUSES("Thread,Time,Action,Pointer,Size,Stream\n1,10:00:00.0,allocate,0x1,x,0\n",
            ":2: not a line");
    REFUSES("Thread,Time,Action,Pointer,Size,Stream\n1,noon,allocate,0x1,12,0\n", ":2: not a line");
    REFUSES("Thread,Time,Action,Pointer,Size,Stream\n1,10:00:00.0,lend,0x1,12,0\n",
            ":2: not a line");
    REFUSES("Thread,Time,Action,Pointer,Size,Stream\n", "holds no operation");
}

/* A block that was there before, one that stays, and one that another stream uses on. */
static const char foreign_json[] =
    "{\"segments\": [{\"device\": 1, \"stream\": 0, \"blocks\": ["
    "  {\"address\": 4096, \"requested_size\": 700, \"state\": \"active_allocated\"},"
    "  {\"address\": 8192, \"requested_size\": 100, \"state\": \"active_allocated\"},"
    "  {\"address\": 9999, \"requested_size\": 5, \"state\": \"inactive\"}]}],"
    " \"device_traces\": [[], ["
    "  {\"action\": \"segment_map\", \"addr\": 0, \"size\": 9, \"stream\": 0, \"time_us\": 100},"
    "  {\"action\": \"free_requested\", \"addr\": 512, \"size\": 64, \"stream\": 0, \"time_us\": "
    "110},"
    "  {\"action\": \"free_completed\", \"addr\": 512, \"size\": 64, \"stream\": 0, \"time_us\": "
    "110},"
    "  {\"action\": \"alloc\", \"addr\": 8192, \"size\": 100, \"stream\": 0, \"time_us\": 120},"
    "  {\"action\": \"alloc\", \"addr\": 512, \"size\": 32, \"stream\": 7, \"time_us\": 130},"
    "  {\"action\": \"free_requested\", \"addr\": 512, \"size\": 32, \"stream\": 7, \"time_us\": "
    "140},"
    "  {\"action\": \"oom\", \"device_free\": 0, \"size\": 1, \"stream\": 0, \"time_us\": 145},"
    "  {\"action\": \"free_completed\", \"addr\": 512, \"size\": 32, \"stream\": 7, \"time_us\": "
    "150}]]}";

Test(foreign, a_snapshot_is_the_trace_of_its_history)
{
    weir_trace trace;
    weir_fault fault;
    cr_assert(foreign_read(foreign_json, sizeof foreign_json - 1, &trace, &fault), "%s",
              fault.text);
    cr_assert_eq(trace.count, 7);
    cr_expect_eq(trace.ops[0].bytes, 700); /* live all along */
    cr_expect_eq(trace.ops[1].bytes, 64);  /* freed without an allocation */
    cr_expect_eq(trace.ops[2].kind, WEIR_TRACE_FREE);
    cr_expect_not(trace.ops[2].side);
    cr_expect_eq(trace.ops[3].time_us, 20);
    cr_expect_eq(trace.ops[5].kind, WEIR_TRACE_FREE);
    cr_expect(trace.ops[5].side);
    cr_expect_eq(trace.ops[5].until_us, 50);
    cr_expect_eq(trace.ops[6].kind, WEIR_TRACE_DONE);
    weir_trace_free(&trace);
}

Test(foreign, a_snapshot_without_history_says_how_to_get_one)
{
    REFUSES("{\"segments\": [], \"device_traces\": [[]]}", "_record_memory_history");
    REFUSES("{\"segments\": []", "no JSON");
    REFUSES("\x80\x02].", "_record_memory_history");
}

/* {"device_traces": [[{"action": "alloc", "addr": 2^63, "size": 300, "stream": 0, "time_us": 7}]]},
 * with the opcodes that Python's pickles of protocol 4 have: frames, memos, marks, tuples. */
static const char foreign_pickle[] =
    "\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00}\x94(\x8c\rdevice_traces\x94]\x94]\x94}\x94("
    "\x8c\x06"
    "action\x94\x8c\x05"
    "alloc\x94\x8c\x04"
    "addr\x94\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x80\x00"
    "\x8c\x04size\x94M,\x01\x8c\x06stream\x94K\x00\x8c\x07time_us\x94K\x07\x8c\x07pool_"
    "id\x94K\x00K\x00\x86\x94"
    "\x8c\x01n\x94N\x8c\x01"
    "b\x94\x88\x8c\x01g\x94G?\xf0\x00\x00\x00\x00\x00\x00\x8c\x01m\x94J\xff\xff\xff\xff"
    "\x8c\x01s\x94h\x05uaau.";

Test(foreign, a_pickle_of_data_is_read)
{
    weir_trace trace;
    weir_fault fault;
    cr_assert(foreign_read(foreign_pickle, sizeof foreign_pickle - 1, &trace, &fault), "%s",
              fault.text);
    cr_assert_eq(trace.count, 1);
    cr_expect_eq(trace.ops[0].bytes, 300);
    weir_trace_free(&trace);
}

Test(foreign, a_pickle_that_would_run_something_is_refused)
{
    REFUSES("\x80\x02"
            "cos\nsystem\n(X\x04\x00\x00\x00"
            "truetR.",
            "not one of plain data");
    REFUSES("\x80\x04\x8c\x02os\x8c\x06system\x93.", "not one of plain data");
    REFUSES("\x80\x04]\x81.", "not one of plain data");
    REFUSES("\x80\x04](K\x01K\x02R.", "not one of plain data");
}

Test(foreign, a_pickle_that_is_broken_is_refused)
{
    for (size_t bytes = 3; bytes + 1 < sizeof foreign_pickle; bytes++) {
        weir_trace trace;
        weir_fault fault;
        cr_expect_not(foreign_read(foreign_pickle, bytes, &trace, &fault), "cut after %zu", bytes);
        cr_expect_neq(fault.text[0], '\0');
    }
    REFUSES("\x80\x07N.", "protocol 2 to 5");
    REFUSES("\x80\x02"
            "e.",
            "lacks its mark");
    REFUSES("\x80\x02K\x01"
            "a.",
            "a value for nothing");
    REFUSES("\x80\x02K\x01K\x02"
            "a.",
            "no list or dict");
    REFUSES("\x80\x02}(K\x01u.", "a key without a value");
    REFUSES("\x80\x02}](K\x01"
            "es.",
            "a value for nothing");
    REFUSES("\x80\x02}(]K\x01u.", "a key that is no text");
    REFUSES("\x80\x02h\x05.", "memo 5 was never set");
    REFUSES("\x80\x02q\x05.", "nothing to remember");
    REFUSES("\x80\x02Nr\xff\xff\xff\xff.", "beyond reason");
    REFUSES("\x80\x02NN.", "no single value");
    REFUSES("\x80\x02\x8a\x0a\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01.", "more than 64 bits");
}

/* PyTorch gives one list of frames to a segment and to the blocks in it: it is fetched while it
 * waits to be put into the segment. */
Test(foreign, a_list_that_is_shared_is_read)
{
    weir_trace trace;
    weir_fault fault;
    static const char shared[] = "\x80\x02}(X\x06\x00\x00\x00"
                                 "frames]q\x00X\x0d\x00\x00\x00"
                                 "device_traces](](}(X\x06\x00\x00\x00"
                                 "framesh\x00X\x06\x00\x00\x00"
                                 "actionX\x05\x00\x00\x00"
                                 "allocX\x04\x00\x00\x00"
                                 "sizeK\x07ueeu.";
    cr_assert(foreign_read(shared, sizeof shared - 1, &trace, &fault), "%s", fault.text);
    cr_assert_eq(trace.count, 1);
    cr_expect_eq(trace.ops[0].bytes, 7);
    weir_trace_free(&trace);
}

/* Each of these is ended by recursion: a million lists, one in the other, by two ways. */
Test(foreign, a_pickle_that_is_too_deep_is_refused)
{
    enum { LISTS = 1000000 };
    size_t bytes = 2 + 2 * (size_t)LISTS;
    char *deep = (char *)malloc(bytes);
    cr_assert_not_null(deep);
    memcpy(deep, "\x80\x02", 2);
    memset(deep + 2, ']', LISTS);
    memset(deep + 2 + LISTS, 'a', LISTS - 1);
    deep[bytes - 1] = '.';
    foreign_refuses(deep, bytes, "more than 100 deep");
    memset(deep + 2, '\x85', bytes - 3);
    deep[2] = ')';
    foreign_refuses(deep, bytes, "more than 100 deep");
    free(deep);
}

/* What is no text is no action; as a text, this list would be 2^40 numbers long. */
Test(foreign, a_list_for_a_text_is_none)
{
    char pickle[512];
    size_t used = 0;
    static const char head[] = "\x80\x02}(X\x0d\x00\x00\x00"
                               "device_traces](](}(X\x06\x00\x00\x00"
                               "actionK\x01";
    memcpy(pickle, head, sizeof head - 1);
    used = sizeof head - 1;
    for (unsigned i = 0; i < 40; i++) {
        const char twice[] = {'q', (char)i, 'h', (char)i, '\x86'};
        memcpy(pickle + used, twice, sizeof twice);
        used += sizeof twice;
    }
    memcpy(pickle + used, "ueeu.", 5);
    foreign_refuses(pickle, used + 5, "holds no operation");
}

/* Neither directly nor by way of another may a list come to hold itself. */
Test(foreign, a_pickle_that_holds_itself_is_refused)
{
    REFUSES("\x80\x02]q\x00h\x00"
            "a.",
            "holds itself");
    REFUSES("\x80\x02]q\x00]q\x01h\x00"
            "aa.",
            "holds itself");
    REFUSES("\x80\x02](]q\x00"
            "eh\x00K\x01"
            "a.",
            "no list or dict"); /* filled too late */
}
