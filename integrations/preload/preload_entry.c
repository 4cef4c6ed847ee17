/* SPDX-License-Identifier: MIT */
/*
 * dlsym and dlvsym.
 *
 * libc's own look at the address they return to: RTLD_NEXT and RTLD_DEFAULT mean something else for
 * each caller. So ours are no functions of C but a few instructions: they ask
 * weir_preload_stand_in, and where that has no answer they jump to libc's with the caller's
 * arguments and return address as they came.
 *
 * Cost  one comparison of names for a name that begins with "cu", else of two letters.
 */
#include "preload.h"

/* Called by the instructions below. */
void *weir_preload_entry_next(void);
void *weir_preload_entry_next_versioned(void);

void *weir_preload_entry_next(void)
{
    preload_dlsym next = weir_preload_dlsym();
    return *(void **)(void *)&next;
}

void *weir_preload_entry_next_versioned(void)
{
    preload_dlvsym next = weir_preload_dlvsym();
    return *(void **)(void *)&next;
}

#if defined(__x86_64__)
/* Three words for the arguments, so the stack is aligned to 16 bytes again at the calls. */
#define PRELOAD_ENTRY(name, next) \
    __asm__(".text\n.globl " name "\n.type " name ", @function\n" name ":\n" \
            ".cfi_startproc\n" \
            "endbr64\n" \
            "pushq %rdi\n.cfi_adjust_cfa_offset 8\n" \
            "pushq %rsi\n.cfi_adjust_cfa_offset 8\n" \
            "pushq %rdx\n.cfi_adjust_cfa_offset 8\n" \
            "movq 24(%rsp), %rdx\n" \
            "call weir_preload_stand_in\n" \
            "testq %rax, %rax\n" \
            "jnz 1f\n" \
            "call " next "\n" \
            "movq %rax, %r11\n" \
            "popq %rdx\n.cfi_adjust_cfa_offset -8\n" \
            "popq %rsi\n.cfi_adjust_cfa_offset -8\n" \
            "popq %rdi\n.cfi_adjust_cfa_offset -8\n" \
            "jmp *%r11\n" \
            ".cfi_adjust_cfa_offset 24\n" \
            "1: addq $24, %rsp\n.cfi_adjust_cfa_offset -24\n" \
            "ret\n" \
            ".cfi_endproc\n.size " name ", .-" name "\n")
#elif defined(__aarch64__)
#define PRELOAD_ENTRY(name, next) \
    __asm__(".text\n.globl " name "\n.type " name ", %function\n" name ":\n" \
            ".cfi_startproc\n" \
            "stp x29, x30, [sp, #-48]!\n.cfi_def_cfa_offset 48\n" \
            ".cfi_offset 29, -48\n.cfi_offset 30, -40\n" \
            "mov x29, sp\n" \
            "stp x0, x1, [sp, #16]\n" \
            "str x2, [sp, #32]\n" \
            "mov x2, x30\n" \
            "bl weir_preload_stand_in\n" \
            "cbnz x0, 1f\n" \
            "bl " next "\n" \
            "mov x16, x0\n" \
            "ldp x0, x1, [sp, #16]\n" \
            "ldr x2, [sp, #32]\n" \
            "ldp x29, x30, [sp], #48\n" \
            "br x16\n" \
            "1: ldp x29, x30, [sp], #48\n" \
            "ret\n" \
            ".cfi_endproc\n.size " name ", .-" name "\n")
#else
#error "the preload library is for x86-64 and 64-bit ARM"
#endif

PRELOAD_ENTRY("dlsym", "weir_preload_entry_next");
PRELOAD_ENTRY("dlvsym", "weir_preload_entry_next_versioned");
