/* SPDX-License-Identifier: MIT */
/* Use is found out by making the device as a pool's program would, and then by trying it. */
#include "carduse.h"

#ifdef WEIR_HAS_CUDA

#include "card.h"
#include "selftest.h"
#include "stage.h"

typedef struct carduse {
    weir_object *object;
    const weir_conf *conf;
    const weir_carduse_has *has;
    weir_cuda *cuda;
    weir_selftest test;
} carduse;

void weir_carduse_off(weir_object *object, const char *what, const char *why)
{
    weir_object reason = weir_object_new();

    weir_object_text(&reason, "what", what);
    weir_object_text(&reason, "why", why);
    weir_object_append(object, "off", reason);
}

static void carduse_source(carduse *use, const char *why)
{
    weir_object object = weir_object_new();
    const char *wished = weir_stage_source(use->conf->source);
    char text[128];

    if (use->cuda == NULL) {
        weir_object_null(&object, "source");
        weir_object_text(&object, "why", why);
    } else {
        weir_conf_source source = weir_cuda_source(use->cuda);
        (void)snprintf(text, sizeof text, "source:%s is asked for, and the device %s", wished,
                       source == use->conf->source ? "has it" : "lacks it; this is the next");
        weir_object_text(&object, "source", weir_stage_source(source));
        weir_object_text(&object, "why", text);
    }
    weir_object_put(use->object, "use", object);
}

/* An export that the device promises was tried, where there was something to try it on. */
static void carduse_export(carduse *use, const char *what, bool has, weir_status status,
                           const char *error)
{
    char why[128];

    if (!has) weir_carduse_off(use->object, what, "the device says that it cannot");
    else if (status != WEIR_OK && status != WEIR_UNSUPPORTED) {
        (void)snprintf(why, sizeof why, "the device promises it and refuses it: %s", error);
        weir_carduse_off(use->object, what, why);
    } else if (status != WEIR_OK)
        weir_carduse_off(use->object, what,
                         "the device promises it, but memory made for it was "
                         "refused, or has a source that cannot");
}

static void carduse_offs(carduse *use)
{
    const weir_carduse_has *has = use->has;
    const weir_selftest *test = &use->test;

    weir_object_list(use->object, "off");
    if (!has->vmm)
        weir_carduse_off(use->object, "source:vmm, and with it moves",
                         "the device or its driver has no virtual memory management");
    if (!has->pools)
        weir_carduse_off(use->object, "source:async", "the device or its driver has no pools");
    if (use->cuda == NULL) return;
    if (has->vmm && weir_cuda_source(use->cuda) != WEIR_CONF_VMM)
        weir_carduse_off(use->object, "moves", "segments lie where the driver put them");
    carduse_export(use, "export as a file descriptor", has->posix_fd, test->export_fd,
                   test->export_fd_error);
    carduse_export(use, "export as a dma-buf", has->dma_buf, test->export_dma_buf,
                   test->export_dma_buf_error);
    if (!has->rdma)
        weir_carduse_off(use->object, "registration for RDMA", "the device says that it cannot");
}

static void carduse_test(carduse *use)
{
    weir_object object = weir_object_new();

    weir_object_flag(&object, "passed", use->test.passed);
    weir_object_text(&object, "why", use->test.passed ? NULL : use->test.why.text);
    weir_object_count(&object, "took_us", use->test.took_us);
    weir_object_put(use->object, "self_test", object);
}

bool weir_carduse_describe(weir_object *object, int device, const weir_conf *conf,
                           const weir_carduse_has *has, weir_conf_source *source, bool *healthy)
{
    char why[WEIR_CUDA_WHY_BYTES] = "";
    weir_cuda_config config = {.size = sizeof config, .device = device};
    carduse use = {.object = object, .conf = conf, .has = has};
    bool made;

    config.source = conf->source;
    config.libcuda = weir_card_library();
    made = weir_cuda_create(&config, &use.cuda, why) == WEIR_OK;
    if (made) {
        *source = weir_cuda_source(use.cuda);
        weir_selftest_run(use.cuda, &use.test);
        *healthy = use.test.passed;
    }
    carduse_source(&use, why);
    carduse_offs(&use);
    if (made) carduse_test(&use);
    else weir_object_null(object, "self_test");
    if (made) weir_cuda_destroy(use.cuda);
    return made;
}

#else

/* A translation unit has to declare something. */
typedef int carduse_left_out;

#endif
