/* SPDX-License-Identifier: MIT */
/*
 * What is really behind the names that this library stands in for.
 *
 * libc's dlvsym is found in the tables of libc itself (of libdl before glibc 2.34), as the name
 * leads back to ours; all else is asked of it. The next dlsym is that of the library that comes
 * after this one, so several libraries that catch it stand in a row.
 *
 * The driver's functions are taken from the library that a program has loaded. Nothing is loaded
 * here, but where a program calls a function of the driver without any: then the driver is asked
 * for by its usual name.
 *
 * Invariant  Every pointer below goes from NULL to its one value, so threads may find it twice.
 * Cost       once: some hundred look-ups by name. Then a load of a pointer.
 */
#define _GNU_SOURCE /* RTLD_NEXT, dl_iterate_phdr */
#include "preload.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#define REAL_DRIVER "libcuda.so.1"

static bool real_forked; /* set once, in a child that has no other thread yet */

/* ------------------------------------------------------------------------------- libc's tables -- */

typedef struct real_tables {
    const ElfW(Sym) * symbols;
    const char *names;
    const uint32_t *hash; /* DT_GNU_HASH: buckets, the first symbol, words of the filter, ... */
} real_tables;

/* The loader has put addresses in place of offsets, but not on every machine. */
static const void *real_table(const ElfW(Dyn) * entry, ElfW(Addr) base)
{
    ElfW(Addr) at = entry->d_un.d_ptr;
    return (const void *)(at < base ? at + base : at);
}

static real_tables real_tables_of(const ElfW(Dyn) * entry, ElfW(Addr) base)
{
    real_tables tables = {NULL, NULL, NULL};
    for (; entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_SYMTAB) {
            tables.symbols = (const ElfW(Sym) *)real_table(entry, base);
        } else if (entry->d_tag == DT_STRTAB) {
            tables.names = (const char *)real_table(entry, base);
        } else if (entry->d_tag == DT_GNU_HASH) {
            tables.hash = (const uint32_t *)real_table(entry, base);
        }
    }
    return tables;
}

static const ElfW(Sym) * real_symbol(real_tables tables, const char *name)
{
    uint32_t hash = 5381;
    for (const char *c = name; *c; c++) {
        hash = hash * 33 + (unsigned char)*c;
    }
    uint32_t buckets = tables.hash[0];
    uint32_t first = tables.hash[1];
    const uint32_t *bucket = tables.hash + 4 + tables.hash[2] * (sizeof(ElfW(Addr)) / 4);
    const uint32_t *chain = bucket + buckets;
    uint32_t at = bucket[hash % buckets];
    for (; at >= first; at++) {
        const ElfW(Sym) *symbol = &tables.symbols[at];
        if ((chain[at - first] | 1) == (hash | 1) && symbol->st_shndx != SHN_UNDEF &&
            strcmp(tables.names + symbol->st_name, name) == 0) {
            return symbol;
        }
        if (chain[at - first] & 1) {
            break;
        }
    }
    return NULL;
}

static bool real_is_libc(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    return strncmp(name, "libc.so.", 8) == 0 || strncmp(name, "libdl.so.", 9) == 0;
}

static int real_visit(struct dl_phdr_info *info, size_t size, void *found)
{
    (void)size;
    for (int i = 0; real_is_libc(info->dlpi_name) && i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC) {
            const void *dynamic = (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
            real_tables tables = real_tables_of((const ElfW(Dyn) *)dynamic, info->dlpi_addr);
            const ElfW(Sym) *symbol = tables.symbols && tables.names && tables.hash
                                          ? real_symbol(tables, "dlvsym")
                                          : NULL;
            if (symbol) {
                *(ElfW(Addr) *)found = info->dlpi_addr + symbol->st_value;
                return 1;
            }
        }
    }
    return 0;
}

/* Of the versions under which glibc has both, the one that is there; never another's RTLD_NEXT,
 * as these lines are this library's own. */
static void *real_next(const char *name)
{
    static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"};
    preload_dlvsym look = NULL;
    void *found = NULL;
    dl_iterate_phdr(real_visit, &look);
    for (size_t i = 0; look && !found && i < sizeof(versions) / sizeof(versions[0]); i++) {
        found = look(RTLD_NEXT, name, versions[i]);
    }
    if (!found) {
        weir_preload_say("this C library has no dlsym that could be found", name);
        abort(); /* a program whose look-ups fail can't go on */
    }
    return found;
}

preload_dlsym weir_preload_dlsym(void)
{
    static preload_dlsym known;
    preload_dlsym next = __atomic_load_n(&known, __ATOMIC_RELAXED);
    if (!next) {
        void *found = real_next("dlsym");
        memcpy(&next, &found, sizeof(next));
        __atomic_store_n(&known, next, __ATOMIC_RELAXED);
    }
    return next;
}

preload_dlvsym weir_preload_dlvsym(void)
{
    static preload_dlvsym known;
    preload_dlvsym next = __atomic_load_n(&known, __ATOMIC_RELAXED);
    if (!next) {
        void *found = real_next("dlvsym");
        memcpy(&next, &found, sizeof(next));
        __atomic_store_n(&known, next, __ATOMIC_RELAXED);
    }
    return next;
}

/* ----------------------------------------------------------------------------------- the driver -- */

typedef preload_result (*real_lookup)(const char *, void **, int, uint64_t, int *);

/* The process has one driver, as it has one dlsym. It becomes known in two steps: the library by
 * libc's look-ups alone, as the driver itself may be asking at this moment; its functions, by the
 * driver's, when the first of ours is called. */
typedef struct real_state {
    void *libcuda;
    const void *bases[2]; /* of the libraries that are the driver: a name may lie in one it needs */
    bool open, ready;
    preload_driver driver;
} real_state;

static real_state real_one;
static pthread_mutex_t real_lock = PTHREAD_MUTEX_INITIALIZER;

static const void *real_base(const void *code)
{
    Dl_info info;
    return code && dladdr(code, &info) ? info.dli_fbase : NULL;
}

/* Where a test's stand-in is, else the driver's own name. */
static const char *real_driver_name(void)
{
    const char *path = secure_getenv("WEIR_CUDA_LIBRARY");
    return path && *path ? path : REAL_DRIVER;
}

/* The reference is kept, as pointers into the library are. */
static bool real_open(int flags)
{
    if (__atomic_load_n(&real_one.open, __ATOMIC_ACQUIRE)) {
        return true;
    }
    void *library = dlopen(real_driver_name(), RTLD_LAZY | RTLD_LOCAL | flags);
    if (!library) {
        return false;
    }
    pthread_mutex_lock(&real_lock);
    if (!real_one.open) {
        real_one.libcuda = library;
        real_one.bases[0] = real_base(weir_preload_dlsym()(library, "cuGetProcAddress_v2"));
        real_one.bases[1] = real_base(weir_preload_dlsym()(library, "cuInit"));
        __atomic_store_n(&real_one.open, true, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&real_lock);
    return true;
}

static void real_find(real_lookup lookup, void *slot, const char *exported, const char *symbol,
                      int version, uint64_t flags)
{
    void *found = NULL;
    int presence = 0;
    if (!lookup || lookup(symbol, &found, version, flags, &presence) != PRELOAD_OK || !found ||
        real_base(found) == real_base(&real_one)) { /* never ourselves */
        found = weir_preload_dlsym()(real_one.libcuda, exported);
    }
    memcpy(slot, &found, sizeof(found));
}

static void real_fill(void)
{
    preload_driver *driver = &real_one.driver;
    real_lookup lookup = NULL;
    void *found = weir_preload_dlsym()(real_one.libcuda, "cuGetProcAddress_v2");
    memcpy(&lookup, &found, sizeof(lookup));
#define REAL_FIND(name, symbol, version, flags, parameters, arguments) \
    real_find(lookup, &driver->name, #name, symbol, version, flags);
    PRELOAD_HOOKS(REAL_FIND)
#undef REAL_FIND
#define REAL_FIND(name, symbol, version, parameters) \
    real_find(lookup, &driver->name, #name, symbol, version, 0);
    PRELOAD_NEEDS(REAL_FIND)
#undef REAL_FIND
}

static const preload_driver *real_driver(int flags)
{
    if (!__atomic_load_n(&real_one.ready, __ATOMIC_ACQUIRE)) {
        if (!real_open(flags)) {
            return NULL;
        }
        pthread_mutex_lock(&real_lock);
        if (!real_one.ready) {
            real_fill();
            __atomic_store_n(&real_one.ready, true, __ATOMIC_RELEASE);
        }
        pthread_mutex_unlock(&real_lock);
    }
    return &real_one.driver;
}

const preload_driver *weir_preload_driver(void)
{
    return real_driver(RTLD_NOLOAD);
}

const preload_driver *weir_preload_driver_needed(void)
{
    return real_driver(0);
}

void *weir_preload_driver_symbol(const char *name)
{
    return real_open(RTLD_NOLOAD) ? weir_preload_dlsym()(real_one.libcuda, name) : NULL;
}

bool weir_preload_is_inside(const void *code)
{
    const preload_runtime *runtime = weir_preload_runtime(false);
    const void *base = real_base(code);
    const void *start = NULL;
    if (runtime) {
        memcpy(&start, &runtime->start, sizeof(start));
    }
    return base && (base == real_one.bases[0] || base == real_one.bases[1] ||
                    base == real_base(&real_one) || base == real_base(start));
}

/* ------------------------------------------------------------------------------------------ off -- */

static void real_fork(void)
{
    real_forked = real_forked || weir_preload_runtime_if() != NULL;
}

__attribute__((constructor)) static void real_start(void)
{
    (void)pthread_atfork(NULL, NULL, real_fork);
}

bool weir_preload_is_off(void)
{
    return real_forked || getauxval(AT_SECURE) != 0;
}
