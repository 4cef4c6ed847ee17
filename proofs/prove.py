#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Proves what the core's arithmetic promises, for all values there are, with z3 and cvc5.

Each property below is about functions of core/ as they stand in the source (bitvec.py). Its
negation, with what the functions may assume, goes to both solvers. One must find it without a
solution, and neither may find one; the assumptions alone must have one. What C leaves undefined on the way is part of every
property. Then a mistake is planted in each function, and a property must fall.

usage: prove.py [--seconds N] [WORD]...   properties whose name holds one of the words
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile

import bitvec

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DEFINES = {"UINT64_MAX": "0xFFFFFFFFFFFFFFFFul", "UINT32_MAX": "0xFFFFFFFFul",
           "WEIR_PLACE_TIGHT": "8u"}  # and every number that the sources define
FIELDS = {".unit_shift": 32, ".node.addr": 64, "node.addr": 64, ".next": 32, ".cols": 32,
          ".rows": 64, ".unit_bytes": 64, ".roundup_divisions": 32, ".rounds": 1,
          ".granule_bytes": 64, ".granule_shift": 32, ".limit_bytes": 64, ".held_bytes": 64,
          ".memory_bytes": 64, ".growth_bytes": 64, ".requested.peak": 64,
          ".requested.current": 64, "ask.requested": 64}
WHERE = {"base.h": "weir_bit_high weir_bit_low weir_is_power weir_min weir_max weir_round_down "
                   "weir_round_up weir_fits_up weir_part",
         "range.h": "weir_bin_of weir_bin_next",
         "range.c": "node_fits bin_previous",
         "block.c": "size_class round_by_divisions weir_block_round",
         "window.c": "slots_bytes gap_stuck",
         "pool.h": "weir_pool_granule",
         "place.c": "weir_place_bound weir_place_kept growth_within headroom_granules "
                    "growth_granules weir_place_slot"}


def w(value, bits=64):
    return bitvec.number(value, bits)


class Proof:
    """One property: variables, what may be assumed, and what must hold."""

    def __init__(self, machine, exponent):
        self.machine, self.exponent, self.assumed, self.claims = machine, exponent, [], []

    def var(self, name, bits=64):
        return self.machine.free(name, bits)

    def each(self, name):
        """The power of two of this case; see `cases`."""
        value = self.var(name)
        self.assume(f"(= {value.term} {w(1 << self.exponent)})")
        return value

    def power(self, name, low, high, bits=64):
        """A power of two from 2^low to 2^high."""
        value = self.var(name, bits)
        self.assume("(or " + " ".join(f"(= {value.term} {w(1 << i, bits)})"
                                      for i in range(low, high + 1)) + ")")
        return value

    def call(self, function, **args):
        """Runs a function; pointers that it writes through come back in `out`."""
        env = {"fn": function, "pc": "true"}
        params = self.machine.functions[function].decl.type.args.params
        for param in params:
            given = args.get(param.name)
            if given is not None:
                env[("*" if hasattr(param.type, "type") and type(param.type).__name__ == "PtrDecl"
                     else "") + param.name] = given
        self.out = env
        return self.machine.run(function, env)

    def assume(self, term):
        self.assumed.append(term)

    def claim(self, term):
        self.claims.append(term)


def cases(*exponents):
    """Proves a property once for each exponent of the power that it gets by `each`."""
    def mark(prove):
        prove.exponents = exponents
        return prove
    return mark


# --------------------------------------------------------------------------------- properties --

def bits_highest(p):
    word = p.var("word")
    p.assume(f"(distinct {word.term} {w(0)})")
    high = p.call("weir_bit_high", word=word).wide(64).term
    p.claim(f"(= (bvlshr {word.term} {high}) {w(1)})")


def bits_lowest(p):
    word = p.var("word")
    p.assume(f"(distinct {word.term} {w(0)})")
    low = p.call("weir_bit_low", word=word).wide(64).term
    p.claim(f"(= (bvand {word.term} (bvneg {word.term})) (bvshl {w(1)} {low}))")


def powers_are_told(p):
    value = p.var("value")
    power = p.call("weir_is_power", value=value).term
    ones = "(or " + " ".join(f"(= {value.term} {w(1 << i)})" for i in range(64)) + ")"
    p.claim(f"(= {power} {ones})")


def rounding_down(p):
    value, power = p.var("value"), p.power("power", 0, 63)
    down = p.call("weir_round_down", value=value, power=power).term
    p.claim(f"(bvule {down} {value.term})")
    p.claim(f"(bvult (bvsub {value.term} {down}) {power.term})")
    p.claim(f"(= (bvand {down} (bvsub {power.term} {w(1)})) {w(0)})")


def rounding_up(p):
    value, power = p.var("value"), p.power("power", 0, 63)
    fits = p.call("weir_fits_up", value=value, power=power).term
    up = p.call("weir_round_up", value=value, power=power).term
    p.claim(f"(= (bvand {up} (bvsub {power.term} {w(1)})) {w(0)})")
    p.claim(f"(= {fits} (bvuge {up} {value.term}))")
    p.claim(f"(=> {fits} (bvult (bvsub {up} {value.term}) {power.term}))")


def bins(p):
    """Every size has a bin, larger ones no lower, and those of one bin are close."""
    a, b = p.var("a"), p.var("b")
    shift = p.var("range.unit_shift", 32)
    p.assume(f"(and (bvuge {shift.term} {w(6, 32)}) (bvule {shift.term} {w(12, 32)}))")
    p.assume(f"(bvult {b.term} {w(1 << 52)})")
    p.assume(f"(bvule {a.term} {b.term})")
    bin_a, bin_b = p.call("weir_bin_of", bytes=a).term, p.call("weir_bin_of", bytes=b).term
    unit = f"(bvshl {w(1)} ((_ zero_extend 32) {shift.term}))"
    p.claim(f"(bvult {bin_b} {w(44 * 32, 32)})")
    p.claim(f"(bvule {bin_a} {bin_b})")
    p.claim(f"(=> (= {bin_a} {bin_b}) (bvule (bvsub {b.term} {a.term}) "
            f"(bvadd {unit} (bvlshr {a.term} {w(5)}))))")


def bitmaps(p):
    """A set whose rows say which columns are not 0 (R4), and any bin."""
    rows = p.var("set.rows").term
    cols = p.machine.array("set.cols", 32)
    for row in range(44):
        p.assume(f"(= (= ((_ extract {row} {row}) {rows}) #b1) "
                 f"(distinct (select {cols} {w(row, 32)}) {w(0, 32)}))")
    p.assume(f"(= ((_ extract 63 44) {rows}) (_ bv0 20))")
    other = p.var("other", 32)
    p.assume(f"(bvult {other.term} {w(44 * 32, 32)})")

    def filled(at):
        return (f"(= (bvand (bvlshr (select {cols} (bvlshr {at} {w(5, 32)})) "
                f"(bvand {at} {w(31, 32)})) {w(1, 32)}) {w(1, 32)})")
    return other.term, filled


def next_bin(p):
    """The first bin that is not empty, from the given one on."""
    other, filled = bitmaps(p)
    at = p.var("at", 32)
    p.assume(f"(bvule {at.term} {w(44 * 32, 32)})")
    found = p.call("weir_bin_next", at=at).term
    to = p.out["*at"].term
    p.claim(f"(=> {found} (and (bvuge {to} {at.term}) (bvult {to} {w(44 * 32, 32)}) {filled(to)}))")
    p.claim(f"(=> (and {filled(other)} (bvuge {other} {at.term})) (and {found} (bvule {to} {other})))")


def previous_bin(p):
    """The last bin that is not empty, before the given one."""
    other, filled = bitmaps(p)
    at = p.var("at", 32)
    p.assume(f"(bvule {at.term} {w(44 * 32, 32)})")
    found = p.call("bin_previous", at=at).term
    to = p.out["*at"].term
    p.claim(f"(=> {found} (and (bvult {to} {at.term}) {filled(to)}))")
    p.claim(f"(=> (and {filled(other)} (bvult {other} {at.term})) (and {found} (bvuge {to} {other})))")


def classes(p):
    size = p.var("bytes")
    p.assume(f"(bvule {size.term} {w(1 << 46)})")
    p.claim(f"(bvult {p.call('size_class', bytes=size).term} {w(40, 32)})")


def block_sizes(p):
    """A block is as long as asked, in units, with an excess that 32 bits hold; 0 for impossible."""
    size, unit = p.var("bytes"), p.power("pool.config.unit_bytes", 6, 12)
    divisions = p.machine.array("pool.config.roundup_divisions", 32)
    for entry in range(16):
        one = f"(select {divisions} {w(entry, 32)})"
        p.assume(f"(= (bvand {one} (bvsub {one} {w(1, 32)})) {w(0, 32)})")
    whole = p.call("weir_block_round", bytes=size).term
    possible = f"(bvult {size.term} {w(1 << 46)})"
    p.claim(f"(= (= {whole} {w(0)}) (not {possible}))")
    p.claim(f"(=> {possible} (bvuge {whole} {size.term}))")
    p.claim(f"(=> {possible} (bvule (bvsub {whole} {size.term}) {w(0xFFFFFFFF)}))")
    p.claim(f"(= (bvand {whole} (bvsub {unit.term} {w(1)})) {w(0)})")


@cases(6, 9, 12, 21, 40)
def fits(p):
    """A block lies inside the node, aligned, and one that could is not refused."""
    size, align, start = p.var("bytes"), p.each("align"), p.var("start")
    addr = p.machine.free("node.addr", 64)
    after = p.machine.free("node.next", 32)
    end = f"(select {p.machine.array('range.node.addr', 64)} {after.term})"
    p.assume(f"(bvule {addr.term} {end})")
    p.assume(f"(bvult {end} {w(1 << 63)})")
    good = p.call("node_fits", bytes=size, align=align, start=start).term
    at = p.out["*start"].term
    p.claim(f"(=> {good} (and (bvuge {at} {addr.term}) (bvule {at} {end}) "
            f"(bvule {size.term} (bvsub {end} {at}))))")
    p.claim(f"(= (bvand {at} (bvsub {align.term} {w(1)})) {w(0)})")
    other = p.var("other").term
    p.claim(f"(=> (and (= (bvand {other} (bvsub {align.term} {w(1)})) {w(0)}) "
            f"(bvuge {other} {addr.term}) (bvule {other} {end}) "
            f"(bvule {size.term} (bvsub {end} {other}))) {good})")


@cases(12, 16, 21, 40)
def stuck(p):
    """What a gap leaves stuck is no more than it has, and less than two granules."""
    low, high = p.var("lo"), p.var("hi")
    granule = p.each("pool.device.info.granule_bytes")
    p.assume(f"(bvule {low.term} {high.term})")
    p.assume(f"(bvult {high.term} {w(1 << 63)})")
    size = p.call("gap_stuck", lo=low, hi=high).term
    p.claim(f"(bvule {size} (bvsub {high.term} {low.term}))")
    p.claim(f"(bvult {size} (bvshl {granule.term} {w(1)}))")


@cases(12, 21)
def slots(p):
    """Whole slots cover what is needed and stay in the hole."""
    low, high = p.var("lo"), p.var("hi")
    need, end = p.var("need"), p.var("need_end")
    slot = p.each("slot")
    for small, large in ((low, need), (need, end), (end, high)):
        p.assume(f"(bvule {small.term} {large.term})")
    p.assume(f"(bvult {high.term} {w(1 << 62)})")
    size = p.call("slots_bytes", lo=low, hi=high, need=need, need_end=end, slot=slot).term
    p.claim(f"(bvuge {size} (bvsub {end.term} {need.term}))")
    p.claim(f"(bvule {size} (bvsub {high.term} {low.term}))")


def pool_figures(p):
    granule = p.each("pool.device.info.granule_bytes")
    shift = p.machine.free("pool.device.granule_shift", 32)
    p.assume(f"(= {granule.term} (bvshl {w(1)} ((_ zero_extend 32) {shift.term})))")
    for name in ("pool.pages.held_bytes", "pool.device.info.memory_bytes",
                 "pool.config.growth_bytes", "pool.requested.peak", "pool.requested.current",
                 "ask.requested"):
        p.assume(f"(bvult {p.var(name).term} {w(1 << 50)})")
    return granule, shift


@cases(12, 21)
def headroom(p):
    """What may be taken stays below the limit."""
    _, shift = pool_figures(p)
    how = p.var("how", 32)
    p.assume(f"(bvult {p.var('pool.config.limit_bytes').term} {w(1 << 50)})")
    room = p.call("headroom_granules", how=how).term
    size = f"(bvshl {room} ((_ zero_extend 32) {shift.term}))"
    held, limit = p.var("pool.pages.held_bytes").term, p.var("pool.config.limit_bytes").term
    p.claim(f"(=> (distinct {room} {w(0)}) (bvule (bvadd {held} {size}) {limit}))")


@cases(12, 21)
def growth(p):
    """A handle to grow by is a power of two, and no larger than the room there is."""
    pool_figures(p)
    p.assume(f"(bvult {p.var('pool.config.limit_bytes').term} {w(1 << 50)})")
    remaining, room = p.var("remaining"), p.var("headroom")
    p.assume(f"(bvult {remaining.term} {w(1 << 22)})")
    p.assume(f"(bvult {room.term} {w(1 << 22)})")
    p.assume(f"(distinct {room.term} {w(0)})")
    size = p.call("growth_granules", remaining=remaining, headroom=room).term
    p.claim(f"(= (bvand {size} (bvsub {size} {w(1)})) {w(0)})")
    p.claim(f"(and (distinct {size} {w(0)}) (bvule {size} {room.term}))")


@cases(12, 21)
def one_slot(p):
    """The slot of a block in one handle holds it, and is the least that does."""
    granule = p.each("pool.device.info.granule_bytes")
    size = p.var("bytes")
    p.assume(f"(bvule {size.term} {w(1 << 46)})")
    slot = p.call("weir_place_slot", bytes=size).term
    p.claim(f"(bvuge {slot} {size.term})")
    p.claim(f"(or (= {slot} {granule.term}) (bvult (bvlshr {slot} {w(1)}) {size.term}))")
    p.claim(f"(= (bvand {slot} (bvsub {slot} {w(1)})) {w(0)})")


PROPERTIES = {
    "bits: the highest": bits_highest,
    "bits: the lowest": bits_lowest,
    "powers are told": powers_are_told,
    "rounding down": rounding_down,
    "rounding up, and when it wraps": rounding_up,
    "bins of free nodes": bins,
    "the next bin": next_bin,
    "the bin before": previous_bin,
    "classes of sizes": classes,
    "sizes of blocks": block_sizes,
    "a block in a node": fits,
    "what is stuck in a gap": stuck,
    "whole slots of a hole": slots,
    "room under the limit": headroom,
    "handles to grow by": growth,
    "the slot of one handle": one_slot,
}

# (function, text, what a slip of the pen makes of it)
PLANTED = [
    ("weir_bit_high", "63u ^", "62u ^"),
    ("weir_bit_low", "(uint32_t)__builtin_ctzll(word)", "1u + (uint32_t)__builtin_ctzll(word)"),
    ("weir_is_power", "value - 1", "value - 2"),
    ("weir_is_power", "value != 0 && ", ""),
    ("weir_round_down", "power - 1", "power"),
    ("weir_round_up", "value + power - 1", "value + power"),
    ("weir_fits_up", "power - 1", "power"),
    ("weir_fits_up", "<=", "<"),
    ("weir_bin_of", "- 5", "- 4"),
    ("weir_bin_of", "shift << 5", "shift << 4"),
    ("weir_bin_next", "row += 1 +", "row +="),
    ("weir_bin_next", "*at & 31", "(*at & 31) + 1"),
    ("weir_bin_next", "set->rows >> 1 >> row", "set->rows >> row"),
    ("bin_previous", ">> 5", ">> 4"),
    ("bin_previous", "row) - 1", "row)"),
    ("size_class", "- 9", "- 5"),
    ("round_by_divisions", "step < config->unit_bytes", "step > config->unit_bytes"),
    ("weir_block_round", "<< 46", "<< 47"),
    ("weir_block_round", "<= UINT32_MAX", "<= UINT64_MAX"),
    ("weir_block_round", "bytes == 0 ? unit", "bytes == 0 ? bytes"),
    ("node_fits", ">= bytes", "+ 1 >= bytes"),
    ("node_fits", "at <= end && ", ""),
    ("gap_stuck", "hi - last", "hi - lo"),
    ("slots_bytes", "weir_round_up(need_end, slot)", "weir_round_down(need_end, slot)"),
    ("headroom_granules", "limit <= used ? 0 : ", ""),
    ("headroom_granules", "limit - used", "limit - used + 1 + weir_pool_granule(pool)"),
    ("growth_granules", "headroom / 2 * granule", "headroom * 2 * granule"),
    ("weir_place_slot", "slot < bytes", "slot + 1 < bytes"),
]


INSIDE = {"round_by_divisions": "weir_block_round"}  # properties call the second


# ------------------------------------------------------------------------------------ solving --

def sources():
    texts = {}
    for path in WHERE:
        with open(f"{TOP}/core/{path}", encoding="utf-8") as file:
            texts[path] = file.read()
    return texts


def defines(texts):
    found = dict(DEFINES)
    for text in texts.values():
        found.update(re.findall(r"^#define (\w+) +(\d+u?)\b", text, re.M))
    return found


def formulas(texts, prove, planted=None):
    """For each case the lines of the negated property, and of its assumptions alone."""
    names = {name: path for path, all_names in WHERE.items() for name in all_names.split()}
    for exponent in getattr(prove, "exponents", [None]):
        machine = bitvec.Machine(texts, names, FIELDS, defines(texts), planted)
        proof = Proof(machine, exponent)
        prove(proof)
        claims = proof.claims + [term for _, term in machine.obligations]
        head = ["(set-logic QF_ABV)"] + machine.lines
        head += [f"(assert {term})" for term in proof.assumed]
        yield head + [f"(assert (not (and {' '.join(claims)})))", "(check-sat)"], \
            head + ["(check-sat)"]


def ask(solver, lines, seconds):
    with tempfile.NamedTemporaryFile("w", suffix=".smt2") as file:
        file.write("\n".join(lines) + "\n")
        file.flush()
        command = {"z3": ["z3", f"-T:{seconds}", file.name],
                   "cvc5": ["cvc5", f"--tlimit={seconds * 1000}", file.name]}[solver]
        run = subprocess.run(command, capture_output=True, text=True)
    words = run.stdout.split() + run.stderr.split()
    answer = [word for word in words if word in ("sat", "unsat", "unknown", "timeout")]
    return answer[0] if answer else " ".join(words)[:200] or "nothing"


def proved(texts, prove, seconds):
    """How many of the solvers prove it, and what they said if one did not."""
    most, said = 2, ""
    for negated, assumed in formulas(texts, prove):
        answers = [ask("z3", negated, seconds), ask("cvc5", negated, seconds)]
        possible = ask("z3", assumed, seconds)
        solvers = 0 if "sat" in answers or possible != "sat" else answers.count("unsat")
        if solvers < most:
            most, said = solvers, " (z3: {}, cvc5: {}, assumptions: {})".format(*answers, possible)
    return most, said


def planted_falls(texts, mistake, seconds):
    """Whether a property of the function falls with a mistake in it."""
    return any(ask("z3", negated, seconds) == "sat"
               for prove in PROPERTIES.values()
               if INSIDE.get(mistake[0], mistake[0]) in prove.__code__.co_consts
               for negated, _ in formulas(texts, prove, mistake))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=120, help="for one question to one solver")
    parser.add_argument("words", nargs="*")
    args = parser.parse_args()
    texts = sources()
    wanted = {name: prove for name, prove in PROPERTIES.items()
              if not args.words or any(word in name for word in args.words)}
    by = [0, 0, 0]
    for name, prove in wanted.items():
        solvers, said = proved(texts, prove, args.seconds)
        by[solvers] += 1
        print(("NOT PROVED: ", "proved by one: ", "proved: ")[solvers] + name + said, flush=True)
    planted, fell = [] if args.words else PLANTED, 0
    for mistake in planted:
        seen = planted_falls(texts, mistake, args.seconds)
        fell += seen
        if not seen:
            print(f"NOT SEEN: in {mistake[0]}, '{mistake[2]}' for '{mistake[1]}'", flush=True)
    print(f"{len(wanted)} properties, {by[2]} proved by z3 and cvc5, {by[1]} by one of them in time, "
          f"{by[0]} not; {fell} of {len(planted)} planted mistakes seen")
    return 0 if by[0] == 0 and fell == len(planted) else 1


if __name__ == "__main__":
    sys.exit(main())
