/* SPDX-License-Identifier: MIT */
/*
 * A plain main for a target: runs the files that it is given, and those in folders that it is
 * given, in the order of their names. Needs no fuzzing engine, so corpora are replayed with every
 * compiler and sanitizer.
 *
 *     TARGET [--rounds N] FILE|FOLDER...     each file N times, and the rate
 *     TARGET --random N [--seed S] [FILE...] N inputs that the mutator makes, from nothing or files
 */
#define _POSIX_C_SOURCE 200809L
#include "fuzz.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { REPLAY_BYTES_MAX = 1 << 20, REPLAY_RANDOM_BYTES = 512, REPLAY_FRESH = 64 };

typedef struct replay_file {
    char *path;
    uint8_t *data;
    size_t size;
} replay_file;

typedef struct replay {
    replay_file *file;
    size_t count, room;
    uint64_t rounds, random, seed;
    uint64_t runs;
} replay;

static char replay_now[4096]; /* what runs, for the handler of signals */
static uint8_t replay_made[REPLAY_RANDOM_BYTES];
static size_t replay_made_size;

/* Names the input that the target died of, and keeps one that was made here. */
static void replay_died(int number)
{
    const char made[] = "crash.made";
    size_t length = strlen(replay_now);
    ssize_t ignored = write(STDERR_FILENO, replay_now, length);
    if (length == 0) {
        FILE *file = fopen(made, "wb");
        if (file != NULL) {
            fwrite(replay_made, 1, replay_made_size, file);
            fclose(file);
        }
        ignored = write(STDERR_FILENO, made, sizeof made - 1);
    }
    ignored = write(STDERR_FILENO, ": the target died of it\n", 24);
    (void)ignored;
    signal(number, SIG_DFL);
    raise(number);
}

static void replay_fail(const char *path, const char *why)
{
    fprintf(stderr, "%s: %s\n", path, why);
    exit(2);
}

static void replay_read(replay_file *file)
{
    FILE *from = fopen(file->path, "rb");
    if (from == NULL) replay_fail(file->path, "can't be opened");
    file->data = malloc(REPLAY_BYTES_MAX);
    if (file->data == NULL) replay_fail(file->path, "not enough memory");
    file->size = fread(file->data, 1, REPLAY_BYTES_MAX, from);
    fclose(from);
    uint8_t *exact = malloc(file->size + 1); /* no slack behind it that a sanitizer would not see */
    if (exact == NULL) replay_fail(file->path, "not enough memory");
    memcpy(exact, file->data, file->size);
    free(file->data);
    file->data = exact;
}

static void replay_add(replay *of, const char *path)
{
    if (of->count == of->room) {
        of->room = of->room == 0 ? 64 : of->room * 2;
        of->file = realloc(of->file, of->room * sizeof *of->file);
        if (of->file == NULL) replay_fail(path, "not enough memory");
    }
    replay_file *file = &of->file[of->count++];
    *file = (replay_file){.path = malloc(strlen(path) + 1)};
    if (file->path == NULL) replay_fail(path, "not enough memory");
    memcpy(file->path, path, strlen(path) + 1);
    replay_read(file);
}

static void replay_add_folder(replay *of, const char *path)
{
    struct dirent **entry = NULL;
    int count = scandir(path, &entry, NULL, alphasort);
    if (count < 0) replay_fail(path, "can't be listed");
    for (int i = 0; i < count; i++) {
        char name[4096];
        int length = snprintf(name, sizeof name, "%s/%s", path, entry[i]->d_name);
        if (entry[i]->d_name[0] != '.' && length < (int)sizeof name) replay_add(of, name);
        free(entry[i]);
    }
    free(entry);
}

static void replay_add_any(replay *of, const char *path)
{
    struct stat about;
    if (stat(path, &about) != 0) replay_fail(path, "is not there");
    if (S_ISDIR(about.st_mode)) replay_add_folder(of, path);
    else replay_add(of, path);
}

static void replay_files(replay *of)
{
    for (uint64_t round = 0; round < of->rounds; round++)
        for (size_t i = 0; i < of->count; i++, of->runs++) {
            snprintf(replay_now, sizeof replay_now, "%s", of->file[i].path);
            LLVMFuzzerTestOneInput(of->file[i].data, of->file[i].size);
        }
}

/* Walks from input to input by the mutator, and begins anew now and then. */
static void replay_random(replay *of)
{
    replay_now[0] = '\0';
    for (; of->runs < of->random; of->runs++) {
        uint32_t seed =
            (uint32_t)(((of->seed << 40) + of->runs) * UINT64_C(0x9E3779B97F4A7C15) >> 32);
        if (of->runs % REPLAY_FRESH == 0) {
            const replay_file *file = of->count == 0 ? NULL : &of->file[seed % of->count];
            replay_made_size = file == NULL ? 0 : file->size;
            if (replay_made_size > sizeof replay_made) replay_made_size = sizeof replay_made;
            if (file != NULL) memcpy(replay_made, file->data, replay_made_size);
        }
        replay_made_size =
            weir_fuzz_mutate(replay_made, replay_made_size, sizeof replay_made, seed);
        LLVMFuzzerTestOneInput(replay_made, replay_made_size);
    }
}

static double replay_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static uint64_t replay_number(int count, char **words, int *at)
{
    if (*at + 1 >= count) replay_fail(words[*at], "wants a number");
    return strtoull(words[++*at], NULL, 0);
}

int main(int count, char **words)
{
    replay of = {.rounds = 1};
    for (int i = 1; i < count; i++) {
        if (strcmp(words[i], "--rounds") == 0) of.rounds = replay_number(count, words, &i);
        else if (strcmp(words[i], "--random") == 0) of.random = replay_number(count, words, &i);
        else if (strcmp(words[i], "--seed") == 0) of.seed = replay_number(count, words, &i);
        else replay_add_any(&of, words[i]);
    }
    if (of.count == 0 && of.random == 0) replay_fail(words[0], "no input: name files or folders");
    static const int deaths[] = {SIGABRT, SIGSEGV, SIGBUS, SIGILL, SIGTRAP, SIGFPE};
    for (size_t i = 0; i < sizeof deaths / sizeof *deaths; i++) signal(deaths[i], replay_died);
    double begun = replay_clock();
    if (of.random != 0) replay_random(&of);
    else replay_files(&of);
    double took = replay_clock() - begun;
    printf("%llu runs, %.0f a second\n", (unsigned long long)of.runs,
           (double)of.runs / (took > 0 ? took : 1e-9));
    for (size_t i = 0; i < of.count; i++) {
        free(of.file[i].path);
        free(of.file[i].data);
    }
    free(of.file);
    return 0;
}
