/* SPDX-License-Identifier: MIT */
/*
 * `weir run`: sets the environment and becomes the command, so signals and the exit status are the
 * command's own.
 *
 * The libraries are looked for beside this program: where it was installed, where it was built, and
 * in its own folder. The start-up folder of the Python package is put in front of PYTHONPATH where
 * it is found, or where WEIR_PYTHON names it.
 */
#define _GNU_SOURCE /* realpath, setenv, strdup, readlink */
#include "run.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conf.h"

#ifndef WEIR_RUN_LIBDIR
#error "the build says where libraries are installed"
#endif

#define RUN_LIBRARY "libweir_preload.so"
#define RUN_HOOK "sitecustomize.py" /* what Python runs by itself when it starts */

enum { RUN_CANNOT = 126, RUN_NOT_FOUND = 127 };

/* From the folder of this program. */
static const char *const run_libraries[] = {("../" WEIR_RUN_LIBDIR), "..", "."};
static const char *const run_startups[] = {"../share/weir/python/startup",
                                           "../../integrations/python/startup",
                                           "../integrations/python/startup"};

/* --------------------------------------------------------------------------------------- options -- */

static bool run_conf(const char *text, weir_fault *fault)
{
    char error[WEIR_CONF_ERROR_BYTES];
    weir_conf conf;

    weir_conf_init(&conf);
    if ((text ? weir_conf_parse(&conf, text, error) : weir_conf_environment(&conf, error)) ==
        WEIR_OK)
        return true;
    return weir_fault_set(fault, "run: %s", error);
}

bool weir_run_options_read(weir_run_options *options, int argc, char **argv, weir_fault *fault)
{
    static const struct option known[] = {{"conf", required_argument, NULL, 'c'},
                                          {"trace", required_argument, NULL, 't'},
                                          {"leaks", no_argument, NULL, 'l'},
                                          {NULL, 0, NULL, 0}};
    int option;

    *options = (weir_run_options){NULL, NULL, false, NULL};
    opterr = 0;
    optind = 1;
    while ((option = getopt_long(argc, argv, "+:", known, NULL)) != -1) {
        if (option == ':')
            return weir_fault_set(fault, "%s needs a value; see 'weir help'", argv[optind - 1]);
        if (option == '?')
            return weir_fault_set(fault, "run knows no option %s; see 'weir help'",
                                  argv[optind - 1]);
        if (option == 'c') options->conf = optarg;
        else if (option == 't') options->trace = optarg;
        else options->leaks = true;
    }
    if (optind == argc)
        return weir_fault_set(fault, "run needs a command: weir run -- python3 train.py");
    options->command = argv + optind;
    return run_conf(options->conf, fault);
}

/* ------------------------------------------------------------------------------------------ paths -- */

static bool run_path(char path[PATH_MAX], const char *folder, const char *below, const char *name)
{
    char raw[PATH_MAX];
    int length = snprintf(raw, sizeof raw, "%s/%s/%s", folder, below, name);

    return length > 0 && length < (int)sizeof raw && realpath(raw, path) != NULL;
}

static bool run_self(char folder[PATH_MAX])
{
    ssize_t length = readlink("/proc/self/exe", folder, PATH_MAX - 1);
    char *slash;

    if (length <= 0) return false;
    folder[length] = '\0';
    slash = strrchr(folder, '/');
    if (slash) *slash = '\0';
    return slash != NULL;
}

static bool run_find(char path[PATH_MAX], const char *folder, const char *const *below,
                     size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (run_path(path, folder, below[i], name)) return true;
    }
    return false;
}

/* The loader parts LD_PRELOAD at colons and blanks and knows no way to write one. */
static bool run_library(char path[PATH_MAX], const char *folder, weir_fault *fault)
{
    size_t count = sizeof run_libraries / sizeof run_libraries[0];

    if (!run_find(path, folder, run_libraries, count, RUN_LIBRARY))
        return weir_fault_set(fault,
                              "run: %s was not found in %s/../%s, %s/.. or %s; build or install "
                              "Weir with the CUDA backend",
                              RUN_LIBRARY, folder, WEIR_RUN_LIBDIR, folder, folder);
    if (strpbrk(path, ": ") != NULL)
        return weir_fault_set(
            fault, "run: '%s' can't be preloaded, as its path holds a colon or a blank", path);
    return true;
}

/* The folder with Python's start-up hook; empty: there is none. */
static bool run_startup(char path[PATH_MAX], const char *folder, weir_fault *fault)
{
    size_t count = sizeof run_startups / sizeof run_startups[0];
    const char *given = getenv("WEIR_PYTHON");
    bool found = given && *given ? run_path(path, given, ".", RUN_HOOK)
                                 : run_find(path, folder, run_startups, count, RUN_HOOK);

    if (found) *strrchr(path, '/') = '\0';
    else path[0] = '\0';
    if (!found && given && *given)
        return weir_fault_set(fault, "run: WEIR_PYTHON is %s, where there is no %s", given,
                              RUN_HOOK);
    return true;
}

/* ------------------------------------------------------------------------------------ environment -- */

static bool run_has(const char *list, const char *entry, const char *marks)
{
    size_t length = strlen(entry);

    while (*list) {
        size_t part = strcspn(list, marks);
        if (part == length && strncmp(list, entry, part) == 0) return true;
        list += part + (list[part] != '\0');
    }
    return false;
}

char *weir_run_join(const char *list, const char *entry, const char *marks)
{
    const char *before = list ? list : "";
    size_t bytes = strlen(before) + strlen(entry) + 2;
    char *joined;

    if (run_has(before, entry, marks)) return strdup(before);
    joined = (char *)malloc(bytes);
    if (joined) (void)snprintf(joined, bytes, "%s%.*s%s", before, *before ? 1 : 0, marks, entry);
    return joined;
}

static bool run_set(const char *name, const char *value, weir_fault *fault)
{
    if (value && setenv(name, value, 1) == 0) return true;
    return weir_fault_set(fault, "run: there is no memory for %s", name);
}

/* What is preloaded already stays in front: tools that watch a program come first. */
static bool run_set_libraries(const char *library, const char *startup, weir_fault *fault)
{
    char *preload = weir_run_join(getenv("LD_PRELOAD"), library, ": ");
    const char *old = getenv("PYTHONPATH");
    char *python = NULL;
    bool set = run_set("LD_PRELOAD", preload, fault);

    if (set && *startup) {
        python = old && *old ? weir_run_join(startup, old, ":") : strdup(startup);
        set = run_set("PYTHONPATH", python, fault);
    }
    free(preload);
    free(python);
    return set;
}

/* The command may change its folder before the file is opened. */
static bool run_set_trace(const char *trace, weir_fault *fault)
{
    char here[PATH_MAX];
    char path[2 * PATH_MAX];

    if (trace[0] == '/') return run_set("WEIR_TRACE", trace, fault);
    if (getcwd(here, sizeof here) == NULL)
        return weir_fault_set(fault, "run: the folder of %s can't be named", trace);
    (void)snprintf(path, sizeof path, "%s/%s", here, trace);
    return run_set("WEIR_TRACE", path, fault);
}

static bool run_prepare(const weir_run_options *options, weir_fault *fault)
{
    char folder[PATH_MAX];
    char library[PATH_MAX];
    char startup[PATH_MAX];

    if (!run_self(folder)) return weir_fault_set(fault, "run: /proc is needed and not there");
    return run_library(library, folder, fault) && run_startup(startup, folder, fault) &&
           run_set_libraries(library, startup, fault) &&
           (!options->conf || run_set("WEIR_CONF", options->conf, fault)) &&
           (!options->trace || run_set_trace(options->trace, fault)) &&
           (!options->leaks || run_set("WEIR_LEAKS", "1", fault));
}

int weir_run(int argc, char **argv)
{
    weir_run_options options;
    weir_fault fault = {""};
    int cause;

    if (!weir_run_options_read(&options, argc, argv, &fault) || !run_prepare(&options, &fault)) {
        weir_fault_print(&fault);
        return WEIR_EXIT_USAGE;
    }
    (void)execvp(options.command[0], options.command);
    cause = errno;
    (void)weir_fault_set(&fault, "run: '%s' can't be started: %s", options.command[0],
                         strerror(cause));
    weir_fault_print(&fault);
    return cause == ENOENT ? RUN_NOT_FOUND : RUN_CANNOT;
}
