/* SPDX-License-Identifier: MIT */
/* Settings, machines without what is needed, forks, and calls that come too late. */
#define _GNU_SOURCE
#include "runtime_rig.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

Test(lifetime, wrong_settings_are_one_sentence)
{
    runtime_rig_open(NULL, NULL);
    EXPECT_STATUS(weir_runtime_configure("limit_mb:potato"), WEIR_INVALID);
    EXPECT_SAYS("limit_mb:potato");
    ASSERT_OK(weir_runtime_configure("limit_mb:64"));
    uint64_t addr = runtime_rig_alloc(MIB);
    cr_expect_eq(runtime_rig_stats().limit, 64 * MIB);
    runtime_rig_free(addr);
    runtime_rig_close();
}

Test(lifetime, the_environment_sets_what_nobody_else_does)
{
    uint64_t addr = 0;
    runtime_rig_open(NULL, NULL);
    setenv("WEIR_CONF", "expandeable_segments:True", 1);
    EXPECT_STATUS(weir_runtime_alloc(0, MIB, 0, &addr), WEIR_INVALID);
    EXPECT_SAYS("expandable_segments");
    setenv("WEIR_CONF", "limit_mb:32", 1);
    EXPECT_STATUS(weir_runtime_alloc(0, MIB, 0, &addr),
                  WEIR_INVALID); /* what failed once is final */
    ASSERT_OK(weir_runtime_configure(NULL));
    addr = runtime_rig_alloc(MIB);
    cr_expect_eq(runtime_rig_stats().limit, 32 * MIB);
    runtime_rig_free(addr);
    runtime_rig_close();
}

Test(lifetime, settings_come_before_the_first_block)
{
    runtime_rig_open(NULL, NULL);
    uint64_t addr = runtime_rig_alloc(MIB);
    EXPECT_STATUS(weir_runtime_configure("limit_mb:64"), WEIR_BUSY);
    EXPECT_SAYS("too late");
    runtime_rig_free(addr);
    runtime_rig_close();
}

Test(lifetime, a_machine_without_a_gpu_says_so)
{
    uint64_t addr = 0;
    runtime_rig_open(NULL, &(weir_fakecuda_config){.devices = -1});
    EXPECT_STATUS(weir_runtime_alloc(0, MIB, 0, &addr), WEIR_UNSUPPORTED);
    cr_expect_gt(strlen(weir_runtime_why()), 10);
    cr_expect_eq(weir_runtime_started(0), 0);
    runtime_rig_close();
}

Test(lifetime, a_device_that_is_not_there_is_refused)
{
    runtime_rig_open(NULL, NULL);
    cr_expect_neq(weir_runtime_start(7), WEIR_OK);
    EXPECT_STATUS(weir_runtime_start(-2), WEIR_INVALID);
    EXPECT_STATUS(weir_runtime_start(WEIR_RUNTIME_DEVICES), WEIR_INVALID);
    runtime_rig_close();
}

Test(lifetime, a_pool_with_live_blocks_does_not_stop)
{
    runtime_rig_open(NULL, NULL);
    uint64_t addr = runtime_rig_alloc(MIB);
    EXPECT_STATUS(weir_runtime_stop(0), WEIR_BUSY);
    runtime_rig_free(addr);
    ASSERT_OK(weir_runtime_stop(0));
    cr_expect_eq(weir_runtime_started(0), 0);
    addr = runtime_rig_alloc(MIB); /* and it begins again */
    runtime_rig_free(addr);
    runtime_rig_close();
}

/* The child's answers as an exit status: 0 if each call says LOST and none of them blocks. */
static int lifetime_child(uint64_t addr)
{
    uint64_t other = 0;
    bool lost = weir_runtime_alloc(0, MIB, 0, &other) == WEIR_LOST &&
                weir_runtime_free(addr, 0) == WEIR_LOST &&
                weir_runtime_trim(0, 0, NULL) == WEIR_LOST &&
                weir_runtime_snapshot("/dev/null") == WEIR_LOST &&
                strstr(weir_runtime_why(), "forked") != NULL;
    return lost ? 0 : 1;
}

Test(lifetime, a_forked_child_gets_an_answer)
{
    int state = -1;
    runtime_rig_open(NULL, NULL);
    uint64_t addr = runtime_rig_alloc(MIB);
    pid_t child = fork();
    if (child == 0) {
        _exit(lifetime_child(addr));
    }
    cr_assert_eq(waitpid(child, &state, 0), child);
    cr_expect(WIFEXITED(state) && WEXITSTATUS(state) == 0, "the child ended with %d", state);
    runtime_rig_free(addr);
    runtime_rig_close();
}

Test(lifetime, the_settings_in_force_can_be_read)
{
    char text[4096];
    runtime_rig_open("limit_mb:64,move_above:1.5", NULL);
    (void)weir_runtime_conf(text, sizeof(text));
    cr_expect_not_null(strstr(text, "move_above:1.5"), "%s", text);
    cr_expect_eq(weir_runtime_conf(NULL, 0), strlen(text));
    runtime_rig_close();
}
