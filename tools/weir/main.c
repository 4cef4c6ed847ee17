/* SPDX-License-Identifier: MIT */
/* The command `weir`: picks the verb. */
#include <stdio.h>
#include <string.h>

#include "bench.h"
#include "doctor.h"
#include "fault.h"
#include "generate.h"
#include "replay.h"
#include "run.h"
#include "weir.h"

static const char main_help[] =
    "weir replay [OPTION]... TRACE...   play recorded allocations through a pool and measure it\n"
    "  --backend sim|host|cuda  a simulated device (default), real host memory, or a GPU\n"
    "  --device N             the GPU, as the driver counts them from 0\n"
    "  --capacity SIZE        memory of the device and limit of the pool: 512M, 2GiB, or 1.02x,\n"
    "                         a multiple of the trace's peak of requested bytes; on a GPU the\n"
    "                         limit alone\n"
    "  --find-capacity        also search the least capacity at which the trace completes\n"
    "  --gpu-lag-us N         the simulated device ends work N microseconds after its queueing\n"
    "  --conf STRING          settings, in place of the environment's WEIR_CONF; source:vmm,\n"
    "                         async or malloc is where a GPU's memory comes from\n"
    "  --policy weir|plain    the pool (default), or a plain caching allocator to compare with\n"
    "  --scale N              divide all sizes by N\n"
    "  --no-verify            leave out the pass in which a model checks every operation, and on\n"
    "                         real memory every word that it wrote\n"
    "  --json                 one line of JSON for each trace (schema weir.replay/1)\n"
    "  --summary              also say where the memory is at the end of each trace\n"
    "  --peers FILE           print recorded results of other allocators beside\n"
    "  A TRACE is CSV, plain or compressed with gzip or zstd; - is standard input.\n"
    "\n"
    "weir bench release-threshold [OPTION]... TRACE...   what each release_threshold_mb costs and\n"
    "                         holds, on segments, and which to take\n"
    "  --backend, --device, --conf, --scale   as above; on a GPU memory is of source:async, or of\n"
    "                         malloc where the settings say so\n"
    "  --every-us N           how much of the trace's time lies between two synchronisations of\n"
    "                         the program, when memory is given back (default 100000)\n"
    "  --json                 one line of JSON for each trace (schema weir.threshold/1)\n"
    "\n"
    "weir doctor [--device N] [--json]   what this machine has, what Weir would use and why, what\n"
    "                         is off, and a self-test of each GPU (schema weir.doctor/1)\n"
    "\n"
    "weir run [OPTION]... [--] COMMAND...   runs a program whose GPU memory comes from Weir, and\n"
    "                         ends as it ends\n"
    "  --conf STRING          settings, in place of the environment's WEIR_CONF\n"
    "  --trace FILE           record all allocations, for weir replay\n"
    "  --leaks                say at the program's end what is still allocated\n"
    "\n"
    "weir generate KIND --seed N [--ops N] [-o FILE]   write a synthetic trace\n"
    "  KIND: pipeline, prefetch, reduction, producer, training or serving\n"
    "\n"
    "weir version\n"
    "weir help\n"
    "\n"
    "Ends with 0 when all went well, 1 when an allocation, a verification or a self-test failed "
    "or\n"
    "the doctor does not find what it was asked for, 2 on bad input or settings. A GPU is reached\n"
    "through libcuda.so.1, or for tests through the library that WEIR_CUDA_LIBRARY names.\n";

static int main_version(void)
{
    int printed =
        printf("weir %d.%d.%d\n", WEIR_VERSION_MAJOR, WEIR_VERSION_MINOR, WEIR_VERSION_PATCH);
    return printed > 0 && fflush(stdout) == 0 ? WEIR_EXIT_OK : WEIR_EXIT_USAGE;
}

static int main_usage(const char *verb)
{
    static const char verbs[] = "there are replay, bench, doctor, run, generate, version and "
                                "help";

    if (verb == NULL) (void)fprintf(stderr, "weir: no verb; %s\n", verbs);
    else (void)fprintf(stderr, "weir: unknown verb '%s'; %s\n", verb, verbs);
    return WEIR_EXIT_USAGE;
}

int main(int argc, char **argv)
{
    const char *verb = argc > 1 ? argv[1] : NULL;

    if (verb == NULL) return main_usage(NULL);
    if (strcmp(verb, "replay") == 0) return weir_replay(argc - 1, argv + 1);
    if (strcmp(verb, "bench") == 0) return weir_bench(argc - 1, argv + 1);
    if (strcmp(verb, "doctor") == 0) return weir_doctor(argc - 1, argv + 1);
    if (strcmp(verb, "run") == 0) return weir_run(argc - 1, argv + 1);
    if (strcmp(verb, "generate") == 0) return weir_generate(argc - 1, argv + 1);
    if (strcmp(verb, "version") == 0 || strcmp(verb, "--version") == 0) return main_version();
    if (strcmp(verb, "help") == 0 || strcmp(verb, "--help") == 0 || strcmp(verb, "-h") == 0)
        return fputs(main_help, stdout) >= 0 && fflush(stdout) == 0 ? WEIR_EXIT_OK
                                                                    : WEIR_EXIT_USAGE;
    return main_usage(verb);
}
