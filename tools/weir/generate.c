/* SPDX-License-Identifier: MIT */
/*
 * Writes a synthetic trace. It is made whole in memory first: a file appears complete or, where it
 * cannot be written, not at all.
 */
#define _POSIX_C_SOURCE 200809L

#include "generate.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "kinds.h"
#include "number.h"

enum { GENERATE_OPS_DEFAULT = 100000, GENERATE_OPS_MAX = 100000000 };

typedef struct generate_options {
    const weir_kind *kind;
    uint64_t seed;
    uint64_t ops;
    const char *path; /* NULL: standard output */
} generate_options;

typedef struct generate_text {
    char *data;
    size_t bytes;
} generate_text;

static bool generate_take(generate_options *options, int option, bool *seeded, weir_fault *fault)
{
    switch (option) {
    case 's':
        *seeded = true;
        if (!weir_number_read(optarg, &options->seed))
            return weir_fault_set(fault, "--seed '%s' is not a number of up to 64 bits", optarg);
        return true;
    case 'n':
        if (!weir_number_read(optarg, &options->ops) || options->ops == 0 ||
            options->ops > GENERATE_OPS_MAX)
            return weir_fault_set(fault, "--ops '%s' is not a number from 1 to %d", optarg,
                                  GENERATE_OPS_MAX);
        return true;
    default:
        options->path = optarg;
        return true;
    }
}

static bool generate_read(generate_options *options, int argc, char **argv, weir_fault *fault)
{
    static const struct option known[] = {{"seed", required_argument, NULL, 's'},
                                          {"ops", required_argument, NULL, 'n'},
                                          {"output", required_argument, NULL, 'o'},
                                          {NULL, 0, NULL, 0}};
    bool seeded = false;
    int option;

    options->ops = GENERATE_OPS_DEFAULT;
    opterr = 0;
    optind = 1;
    while ((option = getopt_long(argc, argv, ":o:", known, NULL)) != -1) {
        if (option == ':')
            return weir_fault_set(fault, "%s needs a value; see 'weir help'", argv[optind - 1]);
        if (option == '?')
            return weir_fault_set(fault, "generate knows no option %s; see 'weir help'",
                                  argv[optind - 1]);
        if (!generate_take(options, option, &seeded, fault)) return false;
    }
    if (argc - optind != 1)
        return weir_fault_set(fault, "generate needs one kind of trace; see 'weir help'");
    options->kind = weir_kind_find(argv[optind]);
    if (options->kind == NULL)
        return weir_fault_set(fault,
                              "unknown kind '%s'; there are pipeline, prefetch, reduction, "
                              "producer, training and serving",
                              argv[optind]);
    return seeded || weir_fault_set(fault, "generate needs --seed N, so that the trace can be made "
                                           "again");
}

static bool generate_make(const generate_options *options, generate_text *text, weir_fault *fault)
{
    FILE *out = open_memstream(&text->data, &text->bytes);
    weir_workload load;
    bool good;

    if (out == NULL) return weir_fault_set(fault, "not enough memory to write the trace");
    weir_workload_init(&load, out, options->kind->name, options->seed, options->ops);
    options->kind->write(&load);
    good = weir_workload_fini(&load);
    if (fclose(out) != 0 && good)
        return weir_fault_set(fault, "not enough memory to write the trace");
    return good || weir_fault_set(fault, "%s", load.fault.text);
}

static bool generate_write(const char *path, const generate_text *text, weir_fault *fault)
{
    FILE *file = path == NULL ? stdout : fopen(path, "wb");
    struct stat kind;
    bool good, regular;

    if (file == NULL) return weir_fault_set(fault, "%s: %s", path, strerror(errno));
    regular = path != NULL && fstat(fileno(file), &kind) == 0 && S_ISREG(kind.st_mode);
    good = fwrite(text->data, 1, text->bytes, file) == text->bytes && fflush(file) == 0;
    if (path != NULL) good = fclose(file) == 0 && good;
    if (good) return true;
    (void)weir_fault_set(fault, "%s: %s", path == NULL ? "standard output" : path, strerror(errno));
    if (regular) /* a device or a pipe is not ours to remove */
        (void)remove(path);
    return false;
}

int weir_generate(int argc, char **argv)
{
    generate_options options = {0};
    generate_text text = {NULL, 0};
    weir_fault fault = {{0}};
    bool good = generate_read(&options, argc, argv, &fault) &&
                generate_make(&options, &text, &fault) &&
                generate_write(options.path, &text, &fault);

    free(text.data);
    if (!good) weir_fault_print(&fault);
    return good ? WEIR_EXIT_OK : WEIR_EXIT_USAGE;
}
