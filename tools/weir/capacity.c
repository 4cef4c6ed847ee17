/* SPDX-License-Identifier: MIT */
/*
 * The search. A step is a capacity in units of 2 MiB.
 *
 * First a bracket is halved: below the peak of requested bytes nothing completes, at its upper end
 * a run did. Then the window from the candidate to 5 % above is run from its top down; a failure at
 * some step makes the step above it the candidate and raises the window. Completion need not be
 * monotone in the capacity, and that is why every step is run.
 *
 * Invariant  All steps from `candidate` to `proven` completed, and the step below `candidate` did
 *            not.
 *
 * Batches of steps are dealt to one process per processor. Answers are taken in the order of the
 * steps and those after a failure are dropped, so the result does not depend on their number. A
 * driver that was started does not survive a fork, so real devices are tried here, step by step.
 */
#define _DEFAULT_SOURCE /* sysconf's processor count */

#include "capacity.h"

#include <inttypes.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "progress.h"

enum {
    CAPACITY_WORKERS_MAX = 64,
    CAPACITY_BATCH_ROUNDS = 16, /* steps that a worker gets at a time */
    CAPACITY_GROWTHS_MAX = 24,
    CAPACITY_WINDOW_PART = 20 /* the window is one 20th of the candidate: 5 % */
};

typedef enum capacity_answer {
    CAPACITY_DONE = 'd',
    CAPACITY_FAILED = 'f',
    CAPACITY_BREACH = 'b'
} capacity_answer;

typedef struct capacity_search {
    const weir_pass_setup *setup;
    uint32_t workers;
    weir_progress progress;
    uint64_t done, steps; /* for the progress bar */
    weir_fault *breach;
    weir_fault *fault;
} capacity_search;

typedef struct capacity_worker {
    pid_t pid;
    int from; /* where its answers can be read */
} capacity_worker;

static capacity_answer capacity_try(const capacity_search *search, uint64_t step,
                                    weir_fault *breach)
{
    weir_pass_setup pass = *search->setup;
    weir_pass_result result;
    weir_fault unable = {{0}};

    pass.capacity_bytes = step * WEIR_CAPACITY_STEP_BYTES;
    pass.stop_on_failure = true;
    if (!weir_pass_run(&pass, &result, &unable)) return CAPACITY_FAILED;
    if (result.breach.text[0] != '\0') {
        (void)weir_fault_set(breach, "at a capacity of %" PRIu64 " bytes: %s", pass.capacity_bytes,
                             result.breach.text);
        return CAPACITY_BREACH;
    }
    return result.failed == 0 ? CAPACITY_DONE : CAPACITY_FAILED;
}

/* ----------------------------------------------------------------------------------- workers -- */

/* Runs every workers-th step from `first` down and never returns. */
static void capacity_work(const capacity_search *search, uint64_t first, uint64_t count, int to)
{
    for (uint64_t i = 0; i < count; i += search->workers) {
        weir_fault breach = {{0}};
        char answer = (char)capacity_try(search, first - i, &breach);
        if (write(to, &answer, 1) != 1 || answer != CAPACITY_DONE) break;
    }
    _exit(0);
}

static bool capacity_start(const capacity_search *search, capacity_worker *worker, uint64_t first,
                           uint64_t count)
{
    int ends[2];

    if (pipe(ends) != 0) return false;
    worker->from = ends[0];
    worker->pid = fork();
    if (worker->pid == 0) {
        (void)close(ends[0]);
        capacity_work(search, first, count, ends[1]);
    }
    (void)close(ends[1]);
    if (worker->pid > 0) return true;
    (void)close(ends[0]);
    return false;
}

static void capacity_stop(capacity_worker *workers, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) (void)close(workers[i].from);
    for (uint32_t i = 0; i < count; i++) (void)waitpid(workers[i].pid, NULL, 0);
}

/* Takes the answers in order. *held becomes how many steps from the top completed before one did
 * not, and *answer is that one's. False: a worker ended without an answer. */
static bool capacity_collect(capacity_search *search, const capacity_worker *workers,
                             uint64_t count, uint64_t *held, capacity_answer *answer)
{
    char byte = CAPACITY_DONE;

    for (; *held < count && byte == CAPACITY_DONE; *held += byte == CAPACITY_DONE) {
        if (read(workers[*held % search->workers].from, &byte, 1) != 1)
            return weir_fault_set(search->fault, "a process that tried a capacity ended early");
        weir_progress_show(&search->progress, ++search->done, search->steps);
    }
    *answer = (capacity_answer)byte;
    return true;
}

/* As below, in this process. */
static bool capacity_serial(capacity_search *search, uint64_t first, uint64_t count, uint64_t *held)
{
    for (*held = 0; *held < count; ++*held) {
        capacity_answer answer = capacity_try(search, first - *held, search->breach);
        if (answer == CAPACITY_BREACH) return false;
        if (answer == CAPACITY_FAILED) break;
        weir_progress_show(&search->progress, ++search->done, search->steps);
    }
    return true;
}

/* Runs the `count` steps from `first` down. */
static bool capacity_batch(capacity_search *search, uint64_t first, uint64_t count, uint64_t *held)
{
    capacity_worker workers[CAPACITY_WORKERS_MAX];
    capacity_answer answer = CAPACITY_FAILED;
    uint32_t started = 0;
    bool good;

    if (search->setup->kind != WEIR_STAGE_SIM) return capacity_serial(search, first, count, held);
    *held = 0;
    while (started < search->workers && capacity_start(search, &workers[started], first - started,
                                                       count > started ? count - started : 0))
        started++;
    good = started == search->workers
               ? capacity_collect(search, workers, count, held, &answer)
               : weir_fault_set(search->fault, "no process can be started to try capacities");
    capacity_stop(workers, started);
    if (good && answer == CAPACITY_BREACH) /* its text died with the worker: once more, here */
        good = capacity_try(search, first - *held, search->breach) != CAPACITY_BREACH;
    return good;
}

/* ------------------------------------------------------------------------------------ search -- */

/* From where the roomy run came to upwards: the first step tried that completes. */
static bool capacity_above(capacity_search *search, uint64_t *step)
{
    for (int i = 0; i < CAPACITY_GROWTHS_MAX; i++) {
        capacity_answer answer = capacity_try(search, *step, search->breach);
        if (answer != CAPACITY_FAILED) return answer == CAPACITY_DONE;
        *step += *step / 8 + 1;
    }
    return weir_fault_set(search->fault, "no capacity up to %" PRIu64 " bytes completes",
                          *step * WEIR_CAPACITY_STEP_BYTES);
}

/* Halves between `below`, which cannot complete, and *step, which did. */
static bool capacity_halve(capacity_search *search, uint64_t below, uint64_t *step)
{
    while (*step - below > 1) {
        uint64_t middle = below + (*step - below) / 2;
        capacity_answer answer = capacity_try(search, middle, search->breach);
        if (answer == CAPACITY_BREACH) return false;
        if (answer == CAPACITY_DONE) *step = middle;
        else below = middle;
    }
    return true;
}

/* Runs the steps from `top` down to above *proven. If one fails, *candidate is the step above
 * it. */
static bool capacity_strip(capacity_search *search, uint64_t top, uint64_t *candidate,
                           uint64_t *proven)
{
    uint64_t batch = (uint64_t)search->workers * CAPACITY_BATCH_ROUNDS;
    uint64_t next = top, held;

    while (next > *proven) {
        uint64_t count = next - *proven < batch ? next - *proven : batch;
        if (!capacity_batch(search, next, count, &held)) return false;
        next -= held;
        if (held < count) {
            *candidate = next + 1;
            break;
        }
    }
    *proven = top;
    return true;
}

/* *candidate has completed; makes it one above which everything completes. */
static bool capacity_window(capacity_search *search, uint64_t *candidate)
{
    uint64_t proven = *candidate; /* all from *candidate to here completed */
    uint64_t most = *candidate * 4 + 64;

    for (;;) {
        uint64_t top = *candidate + *candidate / CAPACITY_WINDOW_PART;
        if (top <= proven) return true;
        if (top > most)
            return weir_fault_set(search->fault, "up to %" PRIu64 " bytes failures come back",
                                  most * WEIR_CAPACITY_STEP_BYTES);
        search->done = 0;
        search->steps = top - proven;
        if (!capacity_strip(search, top, candidate, &proven)) return false;
    }
}

static uint32_t capacity_workers(void)
{
    long count = sysconf(_SC_NPROCESSORS_ONLN);

    if (count < 1) return 1;
    return count < CAPACITY_WORKERS_MAX ? (uint32_t)count : CAPACITY_WORKERS_MAX;
}

bool weir_capacity_find(const weir_pass_setup *setup, uint64_t roomy_bytes, uint64_t *least_bytes,
                        weir_fault *breach, weir_fault *fault)
{
    capacity_search search = {.setup = setup, .breach = breach, .fault = fault};
    uint64_t peak = setup->trace->peak_requested_bytes;
    uint64_t below = peak == 0 ? 0 : (peak - 1) / WEIR_CAPACITY_STEP_BYTES;
    uint64_t step = roomy_bytes / WEIR_CAPACITY_STEP_BYTES + 1;
    bool good;

    search.workers = capacity_workers();
    step = step > below ? step : below + 1;
    weir_progress_begin(&search.progress, setup->trace->name);
    good = capacity_above(&search, &step) && capacity_halve(&search, below, &step) &&
           capacity_window(&search, &step);
    weir_progress_end(&search.progress);
    if (good) *least_bytes = step * WEIR_CAPACITY_STEP_BYTES;
    return good || breach->text[0] != '\0';
}
