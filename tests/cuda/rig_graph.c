/* SPDX-License-Identifier: MIT */
/* Graphs that use a pool's memory; see rig_graph.h. */
#include "rig_graph.h"

void rig_expect_active(const cuda_rig *rig, weir_cu_stream stream)
{
    int status = -1;
    RUN(rig->driver.stream_capturing(stream, &status));
    cr_expect_eq(status, WEIR_CU_CAPTURE_ACTIVE, "the capture was broken");
    cr_expect_null(weir_fakecuda_breach(), "%s", weir_fakecuda_breach());
}

bool rig_overlap(weir_addr a, weir_addr b, uint64_t bytes)
{
    return a < b + bytes && b < a + bytes;
}

/* Captures a fill and a check of one block that is allocated inside. */
void *rig_graph(const cuda_rig *rig, weir_cu_stream stream, int mode, weir_addr *addr)
{
    rig_capture_begin(stream, mode);
    *addr = rig_alloc(rig, stream, RIG_GRAPH_BYTES);
    rig_fill(rig, stream, *addr, RIG_GRAPH_BYTES, 7);
    rig_verify(rig, stream, *addr, RIG_GRAPH_BYTES, 7);
    rig_free(rig, *addr, stream);
    rig_expect_active(rig, stream);
    weir_cu_graph graph = rig_capture_end(stream);
    void *exec = rig_instantiate(graph);
    RUN(cuGraphDestroy(graph));
    return exec;
}

/* The graph's memory is given back: another can have all there is. */
void rig_expect_given_back(const cuda_rig *rig, uint64_t limit)
{
    weir_fakecuda_settle(); /* the destructor runs when it likes */
    EXPECT_OK(weir_cuda_pool_settle(rig->pool));
    weir_addr all = rig_alloc(rig, NULL, limit);
    rig_free(rig, all, NULL);
}
