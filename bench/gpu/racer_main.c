/* SPDX-License-Identifier: MIT */
/*
 * The program of a race: one contestant, one event, results on the standard output. bench/race.sh
 * calls it; bench/gpu/README.md says what the results mean.
 *
 *     racer list
 *     racer replays KEY [--times N] [--no-search] [--peer FILE] [--seconds S] TRACE...
 *     racer pairs KEY [--count N]
 *     racer threads KEY [--count N]
 *     racer stalls KEY
 *     racer hold SECONDS
 *
 * Ends with 0, also where the contestant failed, which is a result; 2: wrong arguments.
 */
#define _POSIX_C_SOURCE 200809L

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "racer_clock.h"
#include "racer_events.h"
#include "racer_out.h"

enum { CLI_USAGE = 2, CLI_PAIRS = 1000000, CLI_THREAD_PAIRS = 400000, CLI_TIMES_MAX = 16 };

typedef struct cli_options {
    const char *event, *key;
    racer_replays replays;
    unsigned long count; /* 0: the event's own */
} cli_options;

static int cli_usage(const char *what)
{
    (void)fprintf(stderr,
                  "racer: %s\n"
                  "use: racer list | hold SECONDS | replays KEY [--times N] [--no-search] [--peer "
                  "FILE] [--seconds S] TRACE... | pairs KEY [--count N] | threads KEY [--count N] "
                  "| stalls KEY\n",
                  what);
    return CLI_USAGE;
}

/* The value of the option at argv[*i], which moves to it; 0: none, or not a number. */
static unsigned long cli_number(int argc, char **argv, int *i)
{
    if (*i + 1 >= argc) return 0;
    return strtoul(argv[++*i], NULL, 10);
}

static const char *cli_options_read(int argc, char **argv, cli_options *options)
{
    unsigned long seconds = 100000, times = 3;
    int i = 3;

    memset(options, 0, sizeof *options);
    options->event = argv[1];
    options->key = argv[2];
    options->replays.search = true;
    for (; i < argc && argv[i][0] == '-'; i++) {
        if (strcmp(argv[i], "--times") == 0) times = cli_number(argc, argv, &i);
        else if (strcmp(argv[i], "--seconds") == 0) seconds = cli_number(argc, argv, &i);
        else if (strcmp(argv[i], "--count") == 0) options->count = cli_number(argc, argv, &i);
        else if (strcmp(argv[i], "--no-search") == 0) options->replays.search = false;
        else if (strcmp(argv[i], "--peer") == 0 && i + 1 < argc)
            options->replays.peer_file = argv[++i];
        else return argv[i];
    }
    if (times == 0 || times > CLI_TIMES_MAX || seconds == 0) return "a number";
    options->replays.times = (int)times;
    options->replays.deadline_ns = racer_clock_ns() + seconds * UINT64_C(1000000000);
    options->replays.traces = argv + i;
    options->replays.traces_count = argc - i;
    return NULL;
}

/* ------------------------------------------------------------------------------------ events -- */

static void cli_failure(const cli_options *options, const char *name, const char *what)
{
    racer_out out;

    racer_out_begin(&out, "failure");
    racer_out_text(&out, "event", options->event);
    racer_out_text(&out, "contestant", name);
    racer_out_text(&out, "what", what);
    racer_out_end(&out);
}

/* The driver's own threads are there by now, so pinning does not touch them. */
static void cli_event(const cli_options *options, const racer_entry *entry)
{
    uint32_t count = (uint32_t)options->count;
    racer_why why = {{0}};
    bool good = true;

    if (strcmp(options->event, "threads") == 0) {
        good = racer_event_threads(entry, count > 0 ? count : CLI_THREAD_PAIRS, &why);
    } else {
        racer_pin();
        if (strcmp(options->event, "replays") == 0) racer_event_replays(entry, &options->replays);
        else if (strcmp(options->event, "pairs") == 0)
            good = racer_event_pairs(entry, count > 0 ? count : CLI_PAIRS, &why);
        else good = racer_event_stalls(entry, &why);
    }
    if (!good) cli_failure(options, entry->contestant->name, why.text);
}

static void cli_contestant(const cli_options *options, const racer_contestant *contestant)
{
    racer_gpu gpu;
    racer_why why = {{0}};
    racer_entry entry = {.gpu = &gpu, .contestant = contestant};

    if (!racer_gpu_open(&gpu, &why)) {
        cli_failure(options, contestant->name, why.text);
        return;
    }
    entry.self = contestant->open(contestant, &gpu, &why);
    if (entry.self == NULL) {
        cli_failure(options, contestant->name, why.text);
    } else {
        cli_event(options, &entry);
        contestant->close(entry.self);
    }
    racer_gpu_close(&gpu);
}

/* ----------------------------------------------------------------------------- without event -- */

static int cli_list(void)
{
    for (const racer_contestant *const *at = racer_contestants(); *at != NULL; at++)
        (void)printf("%s\n", (*at)->key);
    return 0;
}

/* Keeps the driver loaded, so that no other process pays for its start. */
static int cli_hold(unsigned long seconds)
{
    racer_gpu gpu;
    racer_why why = {{0}};

    if (!racer_gpu_open(&gpu, &why)) {
        (void)fprintf(stderr, "racer: %s\n", why.text);
        return 1;
    }
    (void)sleep((unsigned)seconds);
    racer_gpu_close(&gpu);
    return 0;
}

static bool cli_knows(const char *event)
{
    static const char *const events[] = {"replays", "pairs", "threads", "stalls"};

    for (size_t i = 0; i < sizeof events / sizeof events[0]; i++)
        if (strcmp(event, events[i]) == 0) return true;
    return false;
}

int main(int argc, char **argv)
{
    cli_options options;

    if (argc == 2 && strcmp(argv[1], "list") == 0) return cli_list();
    if (argc == 3 && strcmp(argv[1], "hold") == 0) return cli_hold(strtoul(argv[2], NULL, 10));
    if (argc < 3 || !cli_knows(argv[1])) return cli_usage("an event and a contestant are needed");
    const char *wrong = cli_options_read(argc, argv, &options);
    if (wrong != NULL) return cli_usage(wrong);
    for (const racer_contestant *const *at = racer_contestants(); *at != NULL; at++) {
        if (strcmp((*at)->key, options.key) != 0) continue;
        cli_contestant(&options, *at);
        return 0;
    }
    return cli_usage("no such contestant; see racer list");
}
