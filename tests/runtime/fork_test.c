/* SPDX-License-Identifier: MIT */
/* Forks of a process that has not used CUDA yet; no test here starts a pool in the parent. */
#define _GNU_SOURCE
#include "runtime_rig.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

/* 0 if the child can do all that a process can. */
static int fork_child_works(void)
{
    uint64_t addr = 0;
    bool works = weir_runtime_configure("limit_mb:32") == WEIR_OK &&
                 weir_runtime_alloc(0, MIB, 0, &addr) == WEIR_OK &&
                 weir_runtime_free(addr, 0) == WEIR_OK && weir_runtime_stop(-1) == WEIR_OK;
    return works ? 0 : 1;
}

/* Launchers set things up and fork their workers, which is no harm before CUDA is used. */
Test(fork, a_child_of_a_process_that_has_not_used_cuda_works)
{
    int state = -1;
    runtime_rig_open("limit_mb:64", NULL);
    pid_t child = fork();
    if (child == 0) {
        weir_fakecuda_reset(NULL);
        _exit(fork_child_works());
    }
    cr_assert_eq(waitpid(child, &state, 0), child);
    cr_expect(WIFEXITED(state) && WEXITSTATUS(state) == 0, "the child ended with %d", state);
    runtime_rig_close();
}

static atomic_bool fork_over;

static void *fork_busy(void *self)
{
    const char *file = "a.py", *name = "f";
    (void)self;
    for (int line = 1; !atomic_load(&fork_over); line = line % 1000 + 1) {
        (void)weir_runtime_configure("limit_mb:64");
        (void)weir_runtime_history(10);
        (void)weir_runtime_stack(&file, &line, &name, 1);
    }
    return NULL;
}

/* No lock is left behind with a thread that the child does not have. */
Test(fork, a_fork_while_other_threads_are_busy_leaves_no_lock_behind)
{
    pthread_t thread[2];
    runtime_rig_open(NULL, NULL);
    for (unsigned i = 0; i < 2; i++) {
        cr_assert_eq(pthread_create(&thread[i], NULL, fork_busy, NULL), 0);
    }
    for (unsigned i = 0; i < 200; i++) {
        int state = -1;
        pid_t child = fork();
        if (child == 0) {
            const char *file = "b.py", *name = "g";
            const int line = 1;
            alarm(20);
            bool works = weir_runtime_configure("limit_mb:32") == WEIR_OK &&
                         weir_runtime_history(5) == WEIR_OK &&
                         weir_runtime_stack(&file, &line, &name, 1) != 0 &&
                         weir_runtime_trace(NULL) == WEIR_OK;
            _exit(works ? 0 : 1);
        }
        cr_assert_eq(waitpid(child, &state, 0), child);
        cr_assert(WIFEXITED(state) && WEXITSTATUS(state) == 0, "child %u ended with %d", i, state);
    }
    atomic_store(&fork_over, true);
    for (unsigned i = 0; i < 2; i++) {
        cr_assert_eq(pthread_join(thread[i], NULL), 0);
    }
    ASSERT_OK(weir_runtime_configure(NULL));
    ASSERT_OK(weir_runtime_history(0));
    runtime_rig_close();
}
