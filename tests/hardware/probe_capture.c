/* SPDX-License-Identifier: MIT */
/*
 * Captures: which calls they survive, in each mode, from the capturing thread and from another one,
 * plainly and in relaxed mode; and when the driver lets go of a graph's user object.
 */
#define _GNU_SOURCE
#include "probe.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

static const char *const captures_modes[] = {"global", "thread-local", "relaxed"};

/* ---------------------------------------------------------------------------------- survival -- */

typedef struct captures_try {
    probe_kit *kit;
    const probe_call *call;
    bool relaxed; /* the call is wrapped in relaxed mode */
    weir_cu_result result;
} captures_try;

typedef struct captures_seen {
    weir_cu_result result; /* of the call */
    bool valid;            /* the capture went on, and made a graph */
} captures_seen;

static void captures_make(captures_try *try)
{
    const weir_driver *driver = &try->kit->rig->driver;
    int mode = WEIR_CU_MODE_RELAXED;
    if (try->relaxed) {
        driver->capture_mode(&mode);
    }
    try->result = try->call->make(try->kit);
    if (try->relaxed) {
        driver->capture_mode(&mode);
    }
}

static void *captures_elsewhere(void *self)
{
    captures_try *try = (captures_try *)self;
    weir_cu_context old = NULL;
    try->kit->rig->driver.context_push(try->kit->rig->context);
    captures_make(try);
    try->kit->rig->driver.context_pop(&old);
    return NULL;
}

/* One call in a capture of its own. */
static captures_seen captures_one(captures_try *try, int mode, bool elsewhere)
{
    probe_rig *rig = try->kit->rig;
    weir_cu_graph graph = NULL;
    pthread_t thread;
    captures_seen seen = {WEIR_CU_OK, false};
    probe_kit_ready(try->kit, try->call);
    probe_must(rig, rig->graphs.begin(try->kit->busy, mode), "a capture");
    weir_cuda_work_spin(rig->work, (uint64_t)(uintptr_t)try->kit->busy, 0);
    if (!elsewhere) {
        captures_make(try);
    } else if (pthread_create(&thread, NULL, captures_elsewhere, try) == 0) {
        pthread_join(thread, NULL);
    }
    seen.result = try->result;
    seen.valid = rig->graphs.end(try->kit->busy, &graph) == WEIR_CU_OK && graph;
    if (graph) {
        rig->graphs.graph_destroy(graph);
    }
    return seen;
}

static void captures_say(const captures_try *try, int mode, bool elsewhere, captures_seen seen)
{
    probe_fact("captures",
               "\"call\":\"%s\",\"mode\":\"%s\",\"thread\":\"%s\",\"wrapped\":%s,"
               "\"result\":\"%s\",\"capture\":\"%s\"",
               try->call->name, captures_modes[mode], elsewhere ? "another" : "capturing",
               try->relaxed ? "true" : "false", probe_error(try->kit->rig, seen.result),
               seen.valid ? "valid" : "broken");
}

/* What Weir makes in relaxed mode has to work and leave the capture be, wherever it is made. */
static void captures_call(probe_kit *kit, const probe_call *call)
{
    char name[96];
    const char *bad = NULL;
    for (int mode = WEIR_CU_MODE_GLOBAL; mode <= WEIR_CU_MODE_RELAXED; mode++) {
        for (unsigned way = 0; way < 4; way++) {
            captures_try try = {kit, call, (way & 1) != 0, WEIR_CU_OK};
            captures_seen seen = captures_one(&try, mode, way >= 2);
            captures_say(&try, mode, way >= 2, seen);
            if (try.relaxed && (seen.result != WEIR_CU_OK || !seen.valid)) {
                bad = captures_modes[mode];
            }
        }
    }
    if (call->captured) {
        snprintf(name, sizeof(name), "a capture survives %s", call->name);
        hw_result(name, bad == NULL, "%s%s", bad ? "but not in mode " : "", bad ? bad : "");
    }
}

void probe_captures(probe_rig *rig)
{
    probe_kit kit;
    probe_kit_open(&kit, rig, PROBE_PIECE);
    for (size_t i = 0; i < probe_call_count; i++) {
        captures_call(&kit, &probe_calls[i]);
    }
    probe_kit_close(&kit);
}

/* ----------------------------------------------------------------------------------- objects -- */

typedef struct objects_rig {
    probe_rig *rig;
    weir_cu_stream stream;
    atomic_bool destroyed;
    void *exec;
} objects_rig;

static void objects_destroy(void *self)
{
    atomic_store((atomic_bool *)self, true);
}

static bool objects_gone(objects_rig *in, unsigned within_ms)
{
    for (unsigned i = 0; i < within_ms && !atomic_load(&in->destroyed); i++) {
        usleep(1000);
    }
    return atomic_load(&in->destroyed);
}

/* A graph with one kernel of PROBE_SPIN_US and the object, which is the graph's alone. */
static void objects_capture(objects_rig *in)
{
    probe_rig *rig = in->rig;
    const weir_driver *driver = &rig->driver;
    weir_cu_graph graph = NULL;
    weir_cu_object object = NULL;
    int status;
    uint64_t id;
    probe_must(rig, rig->graphs.begin(in->stream, WEIR_CU_MODE_RELAXED), "a capture");
    weir_cuda_work_spin(rig->work, (uint64_t)(uintptr_t)in->stream, PROBE_SPIN_US);
    probe_must(rig, driver->stream_capture(in->stream, &status, &id, &graph, NULL, NULL),
               "cuStreamGetCaptureInfo");
    probe_must(
        rig,
        driver->object_create(&object, &in->destroyed, objects_destroy, 1, WEIR_CU_OBJECT_NO_SYNC),
        "cuUserObjectCreate");
    probe_must(rig, driver->graph_retain(graph, object, 1, WEIR_CU_GRAPH_MOVE_OBJECT),
               "cuGraphRetainUserObject");
    probe_must(rig, rig->graphs.end(in->stream, &graph), "the end of a capture");
    probe_must(rig, rig->graphs.instantiate(&in->exec, graph, 0), "an executable graph");
    probe_must(rig, rig->graphs.graph_destroy(graph), "the end of a graph");
}

void probe_objects(probe_rig *rig)
{
    objects_rig in = {.rig = rig};
    if (!rig->driver.object_create || !rig->driver.graph_retain || !rig->driver.stream_capture) {
        hw_skip("user objects", "this driver has none");
        return;
    }
    in.stream = probe_stream(rig);
    objects_capture(&in);
    bool by_graph = objects_gone(&in, 20);
    probe_must(rig, rig->graphs.launch(in.exec, in.stream), "a launch");
    probe_must(rig, rig->graphs.exec_destroy(in.exec), "the end of an executable graph");
    bool running = rig->driver.stream_capturing && !atomic_load(&in.destroyed);
    bool early = objects_gone(&in, PROBE_SPIN_US / 5000);
    probe_must(rig, rig->driver.context_sync(), "the launch");
    bool late = objects_gone(&in, 2000);
    probe_fact("objects",
               "\"gone_with_graph\":%s,\"gone_with_exec\":%s,\"gone_in_launch\":%s,"
               "\"gone_after_launch\":%s",
               by_graph ? "true" : "false", running ? "false" : "true", early ? "true" : "false",
               late ? "true" : "false");
    hw_result("a user object outlives the graph, the executable graph and its last launch",
              !by_graph && !early, "");
    hw_result("and is destroyed after them", late, "");
}
