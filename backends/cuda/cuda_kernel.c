/* SPDX-License-Identifier: MIT */
/*
 * The kernels of cuda_work, in PTX, so that no CUDA compiler is needed to build Weir.
 *
 * Word i of a range holds x ^ x >> 29 with x = tag * 0x9e3779b97f4a7c15 + i * 0xbf58476d1ce4e5b9;
 * bytes after the last whole word hold the low bytes of the next one. Threads step through the
 * words by the size of the grid; the one that stops right at the end sees to the rest.
 */
#include "cuda_kernel.h"

/* Reads the parameters and this thread's first word, the step, the number of words, tag * K. */
#define KERNEL_BEGIN(name) \
    "  .reg .pred %p<4>;\n" \
    "  .reg .b32 %r<8>;\n" \
    "  .reg .b64 %d<20>;\n" \
    "  ld.param.u64 %d0, [" name "_addr];\n" \
    "  ld.param.u64 %d1, [" name "_bytes];\n" \
    "  ld.param.u64 %d2, [" name "_tag];\n" \
    "  cvta.to.global.u64 %d0, %d0;\n" \
    "  mov.u32 %r0, %ctaid.x;\n" \
    "  mov.u32 %r1, %ntid.x;\n" \
    "  mov.u32 %r2, %tid.x;\n" \
    "  mov.u32 %r3, %nctaid.x;\n" \
    "  cvt.u64.u32 %d4, %r2;\n" \
    "  mad.wide.u32 %d3, %r0, %r1, %d4;\n" \
    "  mul.wide.u32 %d5, %r3, %r1;\n" \
    "  shr.u64 %d6, %d1, 3;\n" \
    "  mul.lo.u64 %d7, %d2, 0x9e3779b97f4a7c15;\n"

/* d8: the pattern of word d3; d10: its address. */
#define KERNEL_WORD \
    "  mul.lo.u64 %d8, %d3, 0xbf58476d1ce4e5b9;\n" \
    "  add.u64 %d8, %d8, %d7;\n" \
    "  shr.u64 %d9, %d8, 29;\n" \
    "  xor.b64 %d8, %d8, %d9;\n" \
    "  shl.b64 %d10, %d3, 3;\n" \
    "  add.u64 %d10, %d10, %d0;\n"

const char weir_cuda_kernels[] =
    ".version 6.3\n"
    ".target sm_70\n"
    ".address_size 64\n"

    ".visible .entry weir_fill(\n"
    "  .param .u64 weir_fill_addr, .param .u64 weir_fill_bytes, .param .u64 weir_fill_tag)\n"
    "{\n" KERNEL_BEGIN(
        "weir_fill") "FILL_NEXT:\n"
                     "  setp.ge.u64 %p0, %d3, %d6;\n"
                     "  @%p0 bra FILL_REST;\n" KERNEL_WORD "  st.global.u64 [%d10], %d8;\n"
                     "  add.u64 %d3, %d3, %d5;\n"
                     "  bra FILL_NEXT;\n"
                     "FILL_REST:\n"
                     "  setp.ne.u64 %p1, %d3, %d6;\n"
                     "  @%p1 bra FILL_END;\n" KERNEL_WORD "  and.b64 %d11, %d1, 7;\n"
                     "FILL_BYTE:\n"
                     "  setp.eq.u64 %p2, %d11, 0;\n"
                     "  @%p2 bra FILL_END;\n"
                     "  cvt.u32.u64 %r4, %d8;\n"
                     "  st.global.u8 [%d10], %r4;\n"
                     "  shr.u64 %d8, %d8, 8;\n"
                     "  add.u64 %d10, %d10, 1;\n"
                     "  sub.u64 %d11, %d11, 1;\n"
                     "  bra FILL_BYTE;\n"
                     "FILL_END:\n"
                     "  ret;\n"
                     "}\n"

                     ".visible .entry weir_verify(\n"
                     "  .param .u64 weir_verify_addr, .param .u64 weir_verify_bytes,\n"
                     "  .param .u64 weir_verify_tag, .param .u64 weir_verify_counter)\n"
                     "{\n" KERNEL_BEGIN(
                         "weir_verify") "  ld.param.u64 %d12, [weir_verify_counter];\n"
                                        "  cvta.to.global.u64 %d12, %d12;\n"
                                        "  mov.u64 %d13, 0;\n" /* words found wrong */
                                        "VERIFY_NEXT:\n"
                                        "  setp.ge.u64 %p0, %d3, %d6;\n"
                                        "  @%p0 bra VERIFY_REST;\n" KERNEL_WORD
                                        "  ld.global.u64 %d14, [%d10];\n"
                                        "  setp.ne.u64 %p1, %d14, %d8;\n"
                                        "  @%p1 add.u64 %d13, %d13, 1;\n"
                                        "  add.u64 %d3, %d3, %d5;\n"
                                        "  bra VERIFY_NEXT;\n"
                                        "VERIFY_REST:\n"
                                        "  setp.ne.u64 %p1, %d3, %d6;\n"
                                        "  @%p1 bra VERIFY_COUNT;\n" KERNEL_WORD
                                        "  and.b64 %d11, %d1, 7;\n"
                                        "VERIFY_BYTE:\n"
                                        "  setp.eq.u64 %p2, %d11, 0;\n"
                                        "  @%p2 bra VERIFY_COUNT;\n"
                                        "  cvt.u32.u64 %r4, %d8;\n"
                                        "  and.b32 %r4, %r4, 255;\n"
                                        "  ld.global.u8 %r5, [%d10];\n"
                                        "  setp.ne.u32 %p1, %r4, %r5;\n"
                                        "  @%p1 add.u64 %d13, %d13, 1;\n"
                                        "  shr.u64 %d8, %d8, 8;\n"
                                        "  add.u64 %d10, %d10, 1;\n"
                                        "  sub.u64 %d11, %d11, 1;\n"
                                        "  bra VERIFY_BYTE;\n"
                                        "VERIFY_COUNT:\n"
                                        "  setp.eq.u64 %p3, %d13, 0;\n"
                                        "  @%p3 bra VERIFY_END;\n"
                                        "  red.global.add.u64 [%d12], %d13;\n"
                                        "VERIFY_END:\n"
                                        "  ret;\n"
                                        "}\n"

                                        ".visible .entry weir_spin(.param .u64 weir_spin_ns)\n"
                                        "{\n"
                                        "  .reg .pred %p<2>;\n"
                                        "  .reg .b64 %d<5>;\n"
                                        "  ld.param.u64 %d0, [weir_spin_ns];\n"
                                        "  mov.u64 %d1, %globaltimer;\n"
                                        "SPIN_ON:\n"
                                        "  mov.u64 %d2, %globaltimer;\n"
                                        "  sub.u64 %d3, %d2, %d1;\n"
                                        "  setp.lt.u64 %p0, %d3, %d0;\n"
                                        "  @%p0 bra SPIN_ON;\n"
                                        "  ret;\n"
                                        "}\n";
