/* SPDX-License-Identifier: MIT */
/*
 * The probe's frame: a process for each group, with a limit of its own.
 *
 *     hw_probe [--quick] [--here] [group...]    costs waits captures objects moves bandwidth threads
 *
 * --here runs the groups in this process, for tools that look at one.
 *
 * Cost  about half a minute, of which each process takes a third of a second to start.
 */
#define _GNU_SOURCE
#include "probe.h"

#include "cuda_internal.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROBE_LIMIT_S 40u

typedef struct probe_group {
    const char *name;
    void (*run)(probe_rig *rig); /* NULL: the cases of threads */
} probe_group;

static const probe_group probe_groups[] = {
    {"costs", probe_costs},     {"waits", probe_waits}, {"captures", probe_captures},
    {"objects", probe_objects}, {"moves", probe_moves}, {"bandwidth", probe_bandwidth},
    {"threads", NULL},
};

#define PROBE_GROUPS (sizeof(probe_groups) / sizeof(probe_groups[0]))

/* -------------------------------------------------------------------------------------- shared -- */

void probe_fact(const char *group, const char *format, ...)
{
    char members[512];
    va_list list;
    va_start(list, format);
    vsnprintf(members, sizeof(members), format, list);
    va_end(list);
    printf("{\"group\":\"%s\",%s}\n", group, members);
    fflush(stdout);
}

const char *probe_error(const probe_rig *rig, weir_cu_result result)
{
    return weir_driver_error(&rig->driver, result);
}

void probe_must(const probe_rig *rig, weir_cu_result result, const char *what)
{
    if (result != WEIR_CU_OK) {
        hw_result(what, false, "%s", probe_error(rig, result));
        fflush(stdout);
        _exit(1);
    }
}

weir_cu_stream probe_stream(probe_rig *rig)
{
    return (weir_cu_stream)(uintptr_t)weir_cuda_work_stream_create(rig->work);
}

static int probe_order(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

double probe_median(double *values, size_t count)
{
    qsort(values, count, sizeof(*values), probe_order);
    return values[count / 2];
}

/* A device as Weir makes it, for what it makes handles with; all calls are the driver's own. */
void probe_open(probe_rig *rig, bool quick)
{
    memset(rig, 0, sizeof(*rig));
    rig->quick = quick;
    rig->driver = hw_driver();
    rig->graphs = hw_graph_calls(&rig->driver);
    rig->cuda = hw_device(WEIR_CONF_VMM, false);
    rig->work = hw_work(rig->cuda);
    rig->prop = rig->cuda->prop;
    rig->access.location = rig->prop.location;
    rig->access.flags = WEIR_CU_ACCESS_READWRITE;
    probe_must(rig, rig->driver.primary_retain(&rig->context, 0), "the context");
    probe_must(rig, rig->driver.context_push(rig->context), "the context");
}

void probe_close(probe_rig *rig)
{
    weir_cu_context old = NULL;
    rig->driver.context_pop(&old);
    rig->driver.primary_release(0);
    weir_cuda_work_destroy(rig->work);
    weir_cuda_destroy(rig->cuda);
    weir_driver_close(&rig->driver);
}

/* ------------------------------------------------------------------------------------- groups -- */

static int probe_run(const probe_group *group, size_t which, bool quick)
{
    probe_rig rig;
    alarm(PROBE_LIMIT_S);
    probe_open(&rig, quick);
    if (group->run) {
        group->run(&rig);
        probe_close(&rig);
    } else {
        probe_threads(&rig, which); /* may have lost the device, so the process ends as it is */
    }
    return hw_code();
}

/* The parent never touches the driver, which does not work on both sides of a fork. Returns the
 * child's exit status; what ends by a signal has failed. */
static int probe_child(const probe_group *group, size_t which, bool quick)
{
    int status = 0;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        int code = probe_run(group, which, quick);
        fflush(stdout);
        _exit(code);
    }
    if (child < 0 || waitpid(child, &status, 0) != child) {
        hw_result(group->name, false, "no process could be started");
        return 1;
    }
    if (WIFEXITED(status)) {
        return WEXITSTATUS(status);
    }
    hw_result(group->name, false, "its process ended by signal %d%s", WTERMSIG(status),
              WTERMSIG(status) == SIGALRM ? ": it took too long" : "");
    return 1;
}

static bool probe_wanted(int argc, char **argv, const char *name)
{
    bool named = false;
    for (int i = 1; i < argc; i++) {
        named = named || argv[i][0] != '-';
    }
    return !named || hw_given(argc, argv, name);
}

int main(int argc, char **argv)
{
    bool quick = hw_quick(argc, argv);
    bool here = hw_given(argc, argv, "--here");
    bool good = true;
    for (size_t i = 0; i < PROBE_GROUPS; i++) {
        const probe_group *group = &probe_groups[i];
        size_t count = group->run ? 1 : probe_thread_cases;
        for (size_t which = 0; which < count && probe_wanted(argc, argv, group->name); which++) {
            int code = here ? probe_run(group, which, quick) : probe_child(group, which, quick);
            if (code == HW_SKIP) {
                return HW_SKIP;
            }
            good = good && code == 0;
        }
    }
    return good ? 0 : 1;
}
