/* SPDX-License-Identifier: MIT */
/*
 * Graphs, executable graphs, and user objects that live as long as these.
 *
 * A graph is the list of what was captured, in that order, which is one that its edges allow. An
 * executable graph is a copy; destroyed while it runs, it lasts until its launches have ended. The
 * destructor of an object runs on a thread of the stand-in's own and may not call the driver.
 */
#include "fake_internal.h"

#include <stdlib.h>

/* ------------------------------------------------------------------------------------- objects -- */

static void fakegraph_destruct(void *self)
{
    fake_object *object = (fake_object *)self;
    fake_state *state = weir_fake_lock();
    weir_fake_thread(state)->no_calls = true;
    weir_fake_unlock(state);
    object->destroy(object->self);
    free(object);
}

static weir_cu_result fakegraph_release(fake_state *state, fake_object *object, uint64_t count)
{
    if (count == 0 || count > object->count) {
        weir_fake_breach(state, "a user object is released more often than retained");
        return WEIR_CU_INVALID_VALUE;
    }
    object->count -= count;
    if (object->count > 0) {
        return WEIR_CU_OK;
    }
    weir_fake_drop(state, FAKE_IS_OBJECT, object->handle);
    if (state->janitor == 0) {
        state->janitor = weir_host_stream_create(state->host);
    }
    if (!weir_host_call(state->host, state->janitor, fakegraph_destruct, object)) {
        abort();
    }
    return WEIR_CU_OK;
}

static fake_object *fakegraph_object(fake_state *state, const void *handle)
{
    fake_object *object = (fake_object *)weir_fake_find(state, FAKE_IS_OBJECT, handle);
    if (!object) {
        weir_fake_breach(state, "use of a user object that does not exist");
    }
    return object;
}

static weir_cu_result fakegraph_object_create(fake_state *state, weir_cu_object *handle, void *self,
                                              void (*destroy)(void *self), unsigned count,
                                              unsigned flags)
{
    if (!destroy || count == 0 || flags != WEIR_CU_OBJECT_NO_SYNC) {
        return WEIR_CU_INVALID_VALUE;
    }
    fake_object *object = weir_fake_new(sizeof(*object));
    object->self = self;
    object->destroy = destroy;
    object->count = count;
    object->handle = weir_fake_add(state, FAKE_IS_OBJECT, object);
    *handle = FAKE_HANDLE(object->handle);
    return WEIR_CU_OK;
}

static weir_cu_result fakegraph_object_release(fake_state *state, const void *handle,
                                               unsigned count)
{
    fake_object *object = fakegraph_object(state, handle);
    return object ? fakegraph_release(state, object, count) : WEIR_CU_INVALID_VALUE;
}

/* -------------------------------------------------------------------------------------- graphs -- */

fake_graph *weir_fake_graph_new(fake_state *state)
{
    fake_graph *graph = weir_fake_new(sizeof(*graph));
    graph->handle = weir_fake_add(state, FAKE_IS_GRAPH, graph);
    return graph;
}

void weir_fake_graph_node(fake_graph *graph, const fake_work *work)
{
    graph->nodes = weir_fake_room(graph->nodes, graph->count, &graph->room, sizeof(*graph->nodes));
    graph->nodes[graph->count++] = *work;
}

static void fakegraph_share(fake_graph *graph, fake_object *object, uint64_t count)
{
    graph->shares = weir_fake_room(graph->shares, graph->share_count, &graph->share_room,
                                   sizeof(*graph->shares));
    graph->shares[graph->share_count++] = (fake_share){object, count};
}

void weir_fake_graph_drop(fake_state *state, fake_graph *graph)
{
    for (size_t i = 0; i < graph->share_count; i++) {
        (void)fakegraph_release(state, graph->shares[i].object, graph->shares[i].count);
    }
    if (graph->handle) {
        weir_fake_drop(state, FAKE_IS_GRAPH, graph->handle);
    }
    free(graph->nodes);
    free(graph->shares);
    free(graph);
}

static fake_graph *fakegraph_find(fake_state *state, const void *handle)
{
    fake_graph *graph = (fake_graph *)weir_fake_find(state, FAKE_IS_GRAPH, handle);
    if (!graph) {
        weir_fake_breach(state, "use of a graph that does not exist");
    }
    return graph;
}

static weir_cu_result fakegraph_retain(fake_state *state, const void *handle,
                                       const void *object_handle, unsigned count, unsigned flags)
{
    fake_graph *graph = fakegraph_find(state, handle);
    fake_object *object = fakegraph_object(state, object_handle);
    if (!graph || !object || count == 0 || flags > WEIR_CU_GRAPH_MOVE_OBJECT) {
        return WEIR_CU_INVALID_VALUE;
    }
    if (flags != WEIR_CU_GRAPH_MOVE_OBJECT) {
        object->count += count;
    }
    fakegraph_share(graph, object, count);
    return WEIR_CU_OK;
}

static weir_cu_result fakegraph_destroy(fake_state *state, const void *handle)
{
    fake_graph *graph = fakegraph_find(state, handle);
    if (!graph || graph->captured) {
        return WEIR_CU_INVALID_VALUE;
    }
    weir_fake_graph_drop(state, graph);
    return WEIR_CU_OK;
}

/* --------------------------------------------------------------------------------------- execs -- */

static weir_cu_result fakegraph_instantiate(fake_state *state, void **handle, const void *from)
{
    const fake_graph *graph = fakegraph_find(state, from);
    if (!graph || graph->captured) {
        return WEIR_CU_INVALID_VALUE;
    }
    fake_exec *exec = weir_fake_new(sizeof(*exec));
    exec->graph = weir_fake_new(sizeof(*exec->graph));
    for (size_t i = 0; i < graph->count; i++) {
        weir_fake_graph_node(exec->graph, &graph->nodes[i]);
    }
    for (size_t i = 0; i < graph->share_count; i++) {
        graph->shares[i].object->count += graph->shares[i].count;
        fakegraph_share(exec->graph, graph->shares[i].object, graph->shares[i].count);
    }
    exec->handle = weir_fake_add(state, FAKE_IS_EXEC, exec);
    *handle = FAKE_HANDLE(exec->handle);
    return WEIR_CU_OK;
}

static void fakegraph_exec_end(fake_state *state, fake_exec *exec)
{
    if (exec->ended && exec->running == 0) {
        weir_fake_graph_drop(state, exec->graph);
        free(exec);
    }
}

void weir_fake_exec_cease(fake_state *state, fake_exec *exec)
{
    exec->running--;
    fakegraph_exec_end(state, exec);
}

static weir_cu_result fakegraph_launch(fake_call *call, const void *handle, const void *name)
{
    fake_exec *exec = (fake_exec *)weir_fake_find(call->state, FAKE_IS_EXEC, handle);
    fake_stream *stream = weir_fake_stream(call, name);
    if (!exec || !stream) {
        return WEIR_CU_INVALID_HANDLE;
    }
    if (stream->capture) {
        weir_fake_breach(call->state, "a launch of a graph is captured");
        return WEIR_CU_NOT_SUPPORTED;
    }
    weir_cu_result result = weir_fake_stream_check(call, stream);
    for (size_t i = 0; i < exec->graph->count && result == WEIR_CU_OK; i++) {
        result = weir_fake_queue(call, stream, &exec->graph->nodes[i]);
    }
    if (result == WEIR_CU_OK) {
        fake_work work = {.kind = FAKE_CEASE, .exec = exec};
        exec->running++;
        result = weir_fake_queue(call, stream, &work);
    }
    return result;
}

static weir_cu_result fakegraph_exec_destroy(fake_state *state, const void *handle)
{
    fake_exec *exec = (fake_exec *)weir_fake_find(state, FAKE_IS_EXEC, handle);
    if (!exec) {
        return WEIR_CU_INVALID_VALUE;
    }
    weir_fake_drop(state, FAKE_IS_EXEC, exec->handle);
    exec->ended = true;
    fakegraph_exec_end(state, exec);
    return WEIR_CU_OK;
}

void weir_fake_graphs_drop(fake_state *state)
{
    for (size_t i = 0; i < state->tables[FAKE_IS_EXEC].count; i++) {
        fake_exec *exec = (fake_exec *)state->tables[FAKE_IS_EXEC].at[i];
        if (exec) {
            (void)fakegraph_exec_destroy(state, FAKE_HANDLE(exec->handle));
        }
    }
    for (size_t i = 0; i < state->tables[FAKE_IS_GRAPH].count; i++) {
        fake_graph *graph = (fake_graph *)state->tables[FAKE_IS_GRAPH].at[i];
        if (graph) {
            weir_fake_graph_drop(state, graph);
        }
    }
}

FAKE_FUNCTION(cuUserObjectCreate, FAKE_STARTED,
              (weir_cu_object * object, void *self, void (*destroy)(void *self), unsigned count,
               unsigned flags),
              fakegraph_object_create(call.state, object, self, destroy, count, flags))
FAKE_FUNCTION(cuUserObjectRelease, FAKE_STARTED, (weir_cu_object object, unsigned count),
              fakegraph_object_release(call.state, object, count))
FAKE_FUNCTION(cuGraphRetainUserObject, FAKE_STARTED,
              (weir_cu_graph graph, weir_cu_object object, unsigned count, unsigned flags),
              fakegraph_retain(call.state, graph, object, count, flags))
FAKE_FUNCTION(cuGraphDestroy, FAKE_STARTED, (weir_cu_graph graph),
              fakegraph_destroy(call.state, graph))
FAKE_FUNCTION(cuGraphInstantiateWithFlags, FAKE_STARTED | FAKE_CURRENT,
              (void **exec, weir_cu_graph graph, unsigned long long flags),
              ((void)flags, fakegraph_instantiate(call.state, exec, graph)))
FAKE_FUNCTION(cuGraphLaunch, FAKE_STARTED | FAKE_CURRENT, (void *exec, weir_cu_stream stream),
              fakegraph_launch(&call, exec, stream))
FAKE_FUNCTION(cuGraphExecDestroy, FAKE_STARTED, (void *exec),
              fakegraph_exec_destroy(call.state, exec))
