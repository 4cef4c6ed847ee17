/* SPDX-License-Identifier: MIT */
/*
 * The passes behind one result:
 *
 *   cost     device calls by the device's own table, layout, failures; on real devices several times
 *            by the clock, of which the one with the least device time counts
 *   host     several times with the clock around device calls, and as often without a pool; what is
 *            left of the shortest is the pool's own time
 *   predict  for a real device: once on a simulated one with the same memory and settings
 *   verify   with the shadow model; it must give the layout of the cost pass again
 */
#include "measure.h"

#include <string.h>

#include "clock.h"
#include "verify.h"

enum { MEASURE_REPEATS = 3 };

static void measure_breach(weir_result *result, const weir_pass_result *pass)
{
    if (pass->breach.text[0] == '\0') return;
    result->verdict = WEIR_BREACHED;
    (void)weir_fault_set(&result->breach, "%s", pass->breach.text);
}

/* The loop's time without the device's. A clocked call lies between two looks at the clock: one
 * half of what they take is inside the interval they measure, the other outside. */
static uint64_t measure_rest_ns(const weir_pass_result *pass, uint64_t clock_ps)
{
    uint64_t away = pass->driver_ns + pass->driver_calls * clock_ps / 1000;
    return pass->wall_ns > away ? pass->wall_ns - away : 0;
}

/* The shortest of some passes. */
static bool measure_least(const weir_pass_setup *setup, weir_result *result, uint64_t *least_ns,
                          weir_fault *fault)
{
    uint64_t clock_ps = weir_clock_cost_ps();
    weir_pass_result pass;

    *least_ns = UINT64_MAX;
    for (int i = 0; i < MEASURE_REPEATS; i++) {
        uint64_t rest_ns;
        if (!weir_pass_run(setup, &pass, fault)) return false;
        measure_breach(result, &pass);
        rest_ns = measure_rest_ns(&pass, clock_ps);
        *least_ns = rest_ns < *least_ns ? rest_ns : *least_ns;
    }
    return true;
}

static bool measure_host(const weir_measure_setup *setup, weir_result *result, weir_fault *fault)
{
    weir_pass_setup pass = setup->pass;
    uint64_t with_ns, without_ns;

    pass.clocked = true;
    if (!measure_least(&pass, result, &with_ns, fault)) return false;
    pass.policy = WEIR_PASS_NOTHING;
    if (!measure_least(&pass, result, &without_ns, fault)) return false;
    result->host_ns_per_op = with_ns > without_ns
                                 ? (double)(with_ns - without_ns) / (double)setup->pass.trace->count
                                 : 0.0;
    return true;
}

static bool measure_cost(const weir_measure_setup *setup, weir_result *result, weir_fault *fault)
{
    weir_pass_setup pass = setup->pass;
    weir_pass_result again;

    pass.hashed = true;
    if (!weir_pass_run(&pass, &result->cost, fault)) return false;
    measure_breach(result, &result->cost);
    if (pass.kind == WEIR_STAGE_SIM) return true;
    for (int i = 1; i < MEASURE_REPEATS && result->verdict != WEIR_BREACHED; i++) {
        if (!weir_pass_run(&pass, &again, fault)) return false;
        measure_breach(result, &again);
        if (again.driver_ns < result->cost.driver_ns) result->cost = again;
    }
    return true;
}

/* Device calls are the same in number where no timing decides; the layout then is too. */
static bool measure_predict(const weir_measure_setup *setup, weir_result *result, weir_fault *fault)
{
    weir_pass_setup pass = setup->pass;

    if (setup->predict_bytes == 0) return true;
    pass.kind = WEIR_STAGE_SIM;
    pass.segments = setup->pass.conf->source != WEIR_CONF_VMM;
    pass.memory_bytes = setup->predict_bytes;
    pass.hashed = true;
    if (!weir_pass_run(&pass, &result->foreseen, fault)) return false;
    result->predicted = true;
    measure_breach(result, &result->foreseen);
    return true;
}

static bool measure_verify(const weir_measure_setup *setup, weir_result *result, weir_fault *fault)
{
    weir_pass_result pass;

    if (!weir_verify_run(&setup->pass, &pass, fault)) return false;
    /* Real threads may end work sooner or later, and so leave another layout. */
    if (pass.layout_hash != result->cost.layout_hash && setup->pass.kind == WEIR_STAGE_SIM)
        (void)weir_fault_set(&pass.breach, "the same calls gave another layout");
    measure_breach(result, &pass);
    if (result->verdict == WEIR_NOT_VERIFIED) result->verdict = WEIR_VERIFIED;
    return true;
}

bool weir_measure(const weir_measure_setup *setup, weir_result *result, weir_fault *fault)
{
    const weir_pass_setup *pass = &setup->pass;

    memset(result, 0, sizeof *result);
    result->trace = pass->trace;
    result->kind = pass->kind;
    result->source = pass->conf->source;
    result->policy = pass->policy;
    if (pass->policy == WEIR_PASS_PLAIN) memcpy(result->conf, "plain", sizeof "plain");
    else (void)weir_conf_print(pass->conf, result->conf, sizeof result->conf);
    if (!measure_cost(setup, result, fault)) return false;
    /* A device that was lost begins no other pass. */
    if (result->verdict == WEIR_BREACHED && pass->kind != WEIR_STAGE_SIM) return true;
    return measure_host(setup, result, fault) && measure_predict(setup, result, fault) &&
           (!setup->verify || measure_verify(setup, result, fault));
}
