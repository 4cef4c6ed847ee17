/* SPDX-License-Identifier: MIT */
/* The build, from the compiler and CMake; the host, from uname, sysconf, limits and /proc. */
#define _DEFAULT_SOURCE /* sysconf's pages */

#include "machine.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "card.h"
#include "weir.h"

#ifndef WEIR_TOOL_BUILD
#define WEIR_TOOL_BUILD "not told"
#endif

enum { MACHINE_LINE_BYTES = 512 };

/* ------------------------------------------------------------------------------------- build -- */

static const char *machine_compiler(void)
{
#if defined(__clang__)
    return "clang " __clang_version__;
#elif defined(__GNUC__)
    return "gcc " __VERSION__;
#else
    return "not known";
#endif
}

static const char *machine_assertions(void)
{
#if defined(WEIR_ASSERT_SLOW_ON)
    return "all";
#elif defined(WEIR_ASSERT_ON)
    return "cheap";
#else
    return "none";
#endif
}

weir_object weir_machine_build(void)
{
    weir_object build = weir_object_new();
    char version[32];

    (void)snprintf(version, sizeof version, "%d.%d.%d", WEIR_VERSION_MAJOR, WEIR_VERSION_MINOR,
                   WEIR_VERSION_PATCH);
    weir_object_text(&build, "version", version);
    weir_object_text(&build, "compiler", machine_compiler());
    weir_object_text(&build, "build", WEIR_TOOL_BUILD);
    weir_object_text(&build, "assertions", machine_assertions());
    weir_object_append_text(&build, "backends", "sim");
    weir_object_append_text(&build, "backends", "host");
    if (weir_card_built()) weir_object_append_text(&build, "backends", "cuda");
    return build;
}

/* -------------------------------------------------------------------------------------- host -- */

/* The first line of a file, without its end. False: there is no such file. */
static bool machine_line(const char *path, char line[MACHINE_LINE_BYTES])
{
    FILE *file = fopen(path, "r");
    bool read = file != NULL && fgets(line, MACHINE_LINE_BYTES, file) != NULL;

    if (file != NULL) (void)fclose(file);
    if (read) line[strcspn(line, "\n")] = '\0';
    return read;
}

/* A file that holds one number; null where it holds a word, such as "max", or is not there. */
static void machine_number(weir_object *host, const char *key, const char *path)
{
    char line[MACHINE_LINE_BYTES];
    char *end = line;
    uint64_t number = machine_line(path, line) ? strtoull(line, &end, 10) : 0;

    if (end == line || *end != '\0') weir_object_null(host, key);
    else weir_object_count(host, key, number);
}

/* The bound of this process's group, by the second version of control groups or the first, whose
 * word for no bound is a number close to 2^63. */
static void machine_group(weir_object *host)
{
    static const char first[] = "/sys/fs/cgroup/memory/memory.limit_in_bytes";
    char line[MACHINE_LINE_BYTES];

    if (access("/sys/fs/cgroup/memory.max", R_OK) == 0)
        machine_number(host, "group_limit_bytes", "/sys/fs/cgroup/memory.max");
    else if (machine_line(first, line) && strtoull(line, NULL, 10) < UINT64_C(1) << 62)
        machine_number(host, "group_limit_bytes", first);
    else weir_object_null(host, "group_limit_bytes");
}

static void machine_limit(weir_object *host, const char *key)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        weir_object_null(host, key);
    else weir_object_count(host, key, limit.rlim_cur);
}

static void machine_pages(weir_object *host, const char *key, int name)
{
    long pages = sysconf(name), page_bytes = sysconf(_SC_PAGESIZE);

    if (pages < 0 || page_bytes < 0) weir_object_null(host, key);
    else weir_object_count(host, key, (uint64_t)pages * (uint64_t)page_bytes);
}

static void machine_system(weir_object *host)
{
    struct utsname system;
    char text[sizeof system.sysname + sizeof system.release];
    char library[128] = "not known";

    if (uname(&system) != 0) return;
    (void)snprintf(text, sizeof text, "%s %s", system.sysname, system.release);
    weir_object_text(host, "kernel", text);
    weir_object_text(host, "machine", system.machine);
#ifdef _CS_GNU_LIBC_VERSION
    if (confstr(_CS_GNU_LIBC_VERSION, library, sizeof library) == 0)
        (void)snprintf(library, sizeof library, "not known");
#endif
    weir_object_text(host, "libc", library);
}

/* The module's version is the first word of its line that begins with two digits and has a dot. */
static void machine_module(weir_object *host)
{
    static const char digits[] = "0123456789";
    char line[MACHINE_LINE_BYTES];
    char *word = NULL, *rest = NULL;

    if (machine_line("/proc/driver/nvidia/version", line))
        for (word = strtok_r(line, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest))
            if (strspn(word, digits) >= 2 && word[strspn(word, digits)] == '.') break;
    weir_object_text(host, "nvidia_module", word);
}

weir_object weir_machine_host(void)
{
    weir_object host = weir_object_new();
    long processors = sysconf(_SC_NPROCESSORS_ONLN);

    machine_system(&host);
    if (processors < 1) weir_object_null(&host, "processors");
    else weir_object_count(&host, "processors", (uint64_t)processors);
    machine_pages(&host, "memory_bytes", _SC_PHYS_PAGES);
    machine_pages(&host, "free_bytes", _SC_AVPHYS_PAGES);
    machine_group(&host);
    machine_limit(&host, "locked_limit_bytes");
    machine_number(&host, "mappings_limit", "/proc/sys/vm/max_map_count");
    machine_module(&host);
    return host;
}
