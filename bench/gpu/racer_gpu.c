/* SPDX-License-Identifier: MIT */
/* The race's own use of the GPU. One thread but for racer_gpu_enter. */
#include "racer_gpu.h"

#include <stdlib.h>
#include <string.h>

/* Reads the device's clock until the time is over and leaves when it began and ended. */
static const char gpu_ptx[] = ".version 6.0\n"
                              ".target sm_70\n"
                              ".address_size 64\n"
                              ".visible .entry racer_spin(.param .u64 ns, .param .u64 mark)\n"
                              "{\n"
                              "    .reg .u64 %span, %mark, %begin, %now, %past;\n"
                              "    .reg .pred %more;\n"
                              "    ld.param.u64 %span, [ns];\n"
                              "    ld.param.u64 %mark, [mark];\n"
                              "    mov.u64 %begin, %globaltimer;\n"
                              "again:\n"
                              "    mov.u64 %now, %globaltimer;\n"
                              "    sub.u64 %past, %now, %begin;\n"
                              "    setp.lt.u64 %more, %past, %span;\n"
                              "    @%more bra again;\n"
                              "    st.u64 [%mark], %begin;\n"
                              "    st.u64 [%mark+8], %now;\n"
                              "    ret;\n"
                              "}\n";

static bool gpu_wrong(racer_gpu *gpu, racer_why *why, const char *call, weir_cu_result result)
{
    return racer_why_set(why, "%s: %s", call, weir_driver_error(&gpu->driver, result));
}

bool racer_gpu_open(racer_gpu *gpu, racer_why *why)
{
    char text[WEIR_DRIVER_WHY_BYTES] = "";
    weir_cu_result result;

    memset(gpu, 0, sizeof *gpu);
    gpu->libcuda = getenv("WEIR_CUDA_LIBRARY");
    if (weir_driver_open(&gpu->driver, gpu->libcuda, text) != WEIR_OK)
        return racer_why_set(why, "%s", text);
    result = gpu->driver.device_get(&gpu->device, 0);
    if (result == WEIR_CU_OK) result = gpu->driver.primary_retain(&gpu->context, gpu->device);
    if (result == WEIR_CU_OK) result = gpu->driver.context_push(gpu->context);
    if (result == WEIR_CU_OK) return true;
    (void)gpu_wrong(gpu, why, "the first device's context", result);
    weir_driver_close(&gpu->driver);
    return false;
}

void racer_gpu_close(racer_gpu *gpu)
{
    if (gpu->marks != 0) (void)gpu->driver.free(gpu->marks);
    if (gpu->module != NULL) (void)gpu->driver.module_unload(gpu->module);
    (void)gpu->driver.context_pop(&gpu->context);
    (void)gpu->driver.primary_release(gpu->device);
    weir_driver_close(&gpu->driver);
}

bool racer_gpu_enter(racer_gpu *gpu)
{
    return gpu->driver.context_push(gpu->context) == WEIR_CU_OK;
}

void *racer_gpu_stream(racer_gpu *gpu)
{
    weir_cu_stream stream = NULL;

    return gpu->driver.stream_create(&stream, WEIR_CU_STREAM_NON_BLOCKING) == WEIR_CU_OK ? stream
                                                                                         : NULL;
}

uint64_t racer_gpu_used(racer_gpu *gpu)
{
    size_t free_bytes = 0, total_bytes = 0;

    if (gpu->driver.memory_info(&free_bytes, &total_bytes) != WEIR_CU_OK) return 0;
    return total_bytes - free_bytes;
}

bool racer_gpu_sync(racer_gpu *gpu)
{
    return gpu->driver.context_sync() == WEIR_CU_OK;
}

/* ------------------------------------------------------------------------------------ kernel -- */

bool racer_gpu_ready(racer_gpu *gpu, racer_why *why)
{
    weir_cu_result result;

    if (gpu->spin != NULL) return true;
    result = gpu->driver.module_load(&gpu->module, gpu_ptx);
    if (result != WEIR_CU_OK) return gpu_wrong(gpu, why, "cuModuleLoadData", result);
    result = gpu->driver.module_function(&gpu->spin, gpu->module, "racer_spin");
    if (result != WEIR_CU_OK) return gpu_wrong(gpu, why, "cuModuleGetFunction", result);
    result = gpu->driver.alloc(&gpu->marks, RACER_GPU_MARKS * 2 * sizeof(uint64_t));
    if (result != WEIR_CU_OK) return gpu_wrong(gpu, why, "cuMemAlloc", result);
    return true;
}

bool racer_gpu_spin(racer_gpu *gpu, void *stream, uint64_t ns)
{
    uint64_t mark = gpu->marks + (uint64_t)gpu->marks_used * 2 * sizeof(uint64_t);
    void *parameters[] = {&ns, &mark};

    if (gpu->marks_used == RACER_GPU_MARKS) return false;
    gpu->marks_used++;
    return gpu->driver.launch(gpu->spin, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL) ==
           WEIR_CU_OK;
}

void racer_gpu_marks_clear(racer_gpu *gpu)
{
    gpu->marks_used = 0;
}

bool racer_gpu_spins(racer_gpu *gpu, uint32_t skip, racer_spins *spins)
{
    uint64_t at[RACER_GPU_MARKS][2];
    size_t bytes = (size_t)gpu->marks_used * sizeof at[0];

    memset(spins, 0, sizeof *spins);
    if (!racer_gpu_sync(gpu)) return false;
    if (bytes > 0 && gpu->driver.copy_to_host(at, gpu->marks, bytes) != WEIR_CU_OK) return false;
    for (uint32_t i = 0; i < gpu->marks_used; i++) {
        spins->busy_ns += at[i][1] - at[i][0];
        if (i <= skip || at[i][0] <= at[i - 1][1]) continue;
        if (at[i][0] - at[i - 1][1] > spins->gap_ns) spins->gap_ns = at[i][0] - at[i - 1][1];
    }
    return true;
}
