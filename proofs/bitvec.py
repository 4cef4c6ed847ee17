# SPDX-License-Identifier: MIT
"""Reads small functions of core/ and turns them into bit-vector formulas (SMT-LIB 2).

The functions are taken from the source as it is, so a change there changes what is proved. What of C
they may use: unsigned integers and bool, locals, if and return, assignments, conditional
expressions, loops that are unrolled, calls of each other, fields of structs and elements of arrays
(free variables, one for each path like pool->device.info.granule_bytes), and `*out` of a pointer.
What C leaves undefined (a shift by the width or more, a division by zero) is collected as an
obligation, with the condition under which the code comes there.
"""
import re

from pycparser import c_ast, c_parser

TYPES = {"uint64_t": 64, "uint32_t": 32, "uint16_t": 16, "uint8_t": 8, "bool": 1, "size_t": 64,
         "unsigned": 32, "int": 32}
STRUCTS = ["weir_range", "weir_node", "weir_set", "weir_pool", "weir_config", "weir_pages",
           "weir_piece", "weir_ask", "weir_cursor"]
HEAD = ("typedef unsigned long uint64_t; typedef unsigned uint32_t; typedef unsigned short uint16_t;"
        "typedef unsigned char uint8_t; typedef _Bool bool; typedef unsigned long size_t;"
        + "".join(f"typedef struct {name} {name};" for name in STRUCTS))


class Value:
    """A term and its width in bits; 1 is bool."""

    def __init__(self, term, bits):
        self.term, self.bits = term, bits

    def wide(self, bits):
        if self.bits == 1 and bits > 1:
            return Value(f"(ite {self.term} {number(1, bits)} {number(0, bits)})", bits)
        if bits == 1:
            return Value(self.truth(), 1)
        if bits > self.bits:
            return Value(f"((_ zero_extend {bits - self.bits}) {self.term})", bits)
        if bits < self.bits:
            return Value(f"((_ extract {bits - 1} 0) {self.term})", bits)
        return self

    def truth(self):
        return self.term if self.bits == 1 else f"(distinct {self.term} {number(0, self.bits)})"


def number(value, bits):
    return f"(_ bv{value % (1 << bits)} {bits})"


def choose(condition, yes, no):
    if yes.term == no.term or condition == "true":
        return yes
    bits = max(yes.bits, no.bits)
    return Value(f"(ite {condition} {yes.wide(bits).term} {no.wide(bits).term})", bits)


def extract(text, name):
    """The function as it stands in a source file."""
    found = re.search(rf"^(?:static |WEIR_\w+ |inline |const |\w+ )*[\w *]*\b{name}\([^;{{]*\)\n{{\n"
                      r".*?^}\n", text, re.M | re.S)
    if found is None:
        raise SystemExit(f"proofs: there is no function {name}")
    return found.group(0)


def simplify(code, defines):
    """What a compiler's preprocessor would do, as far as these functions need it."""
    code = re.sub(r"#if UINTPTR_MAX > UINT32_MAX\n(.*?)#else\n.*?#endif\n", r"\1", code, flags=re.S)
    code = re.sub(r"/\*.*?\*/", " ", code, flags=re.S)
    code = re.sub(r"WEIR_ASSERT\(.*?\);\n", "", code)
    code = re.sub(r"\bWEIR_(HOT|NOINLINE)\b", "", code)
    code = re.sub(r"\bWEIR_(?:UN)?LIKELY\b", "", code)
    code = re.sub(r"\bUINT64_C\((\w+)\)", r"\1ul", code)
    code = re.sub(r"\(weir_(?:domain|stream|addr)\)", "(uint64_t)", code)
    for key, value in defines.items():
        code = re.sub(rf"\b{key}\b", value, code)
    return re.sub(r"\binline\b", "", code)


class Machine:
    """Runs functions on terms."""

    def __init__(self, sources, names, fields, defines, planted=None):
        self.functions, self.fields = {}, fields
        self.declared, self.lines, self.obligations = {}, [], []
        self.count = 0
        parser = c_parser.CParser()
        for name, path in names.items():
            code = extract(sources[path], name)
            if planted is not None and planted[0] == name:
                if planted[1] not in code:
                    raise SystemExit(f"proofs: no '{planted[1]}' in {name} to plant a mistake in")
                code = code.replace(planted[1], planted[2], 1)
            tree = parser.parse(HEAD + simplify(code, defines), path)
            self.functions[name] = tree.ext[-1]

    # ------------------------------------------------------------------------------ variables --

    def free(self, name, bits):
        """A free variable; the same name is the same variable."""
        if name not in self.declared:
            self.declared[name] = bits
            sort = "Bool" if bits == 1 else f"(_ BitVec {bits})"
            self.lines.append(f"(declare-const |{name}| {sort})")
        return Value(f"|{name}|", bits)

    def array(self, name, bits):
        if name not in self.declared:
            self.declared[name] = bits
            self.lines.append(
                f"(declare-const |{name}| (Array (_ BitVec 32) (_ BitVec {bits})))")
        return f"|{name}|"

    def name(self, value):
        """Names a long term, so that formulas stay small."""
        if len(value.term) < 40:
            return value
        self.count += 1
        sort = "Bool" if value.bits == 1 else f"(_ BitVec {value.bits})"
        self.lines.append(f"(define-fun |t{self.count}| () {sort} {value.term})")
        return Value(f"|t{self.count}|", value.bits)

    # ---------------------------------------------------------------------------- expressions --

    def path(self, node, env):
        """The path of a field, and the index if it goes through an array."""
        if isinstance(node, c_ast.ID):
            alias = env.get("&" + node.name)
            return alias if alias is not None else (node.name, None)
        if isinstance(node, c_ast.StructRef):
            base, index = self.path(node.name, env)
            return f"{base}.{node.field.name}", index
        if isinstance(node, c_ast.ArrayRef):
            base, _ = self.path(node.name, env)
            return base, self.value(node.subscript, env).wide(32)
        if isinstance(node, c_ast.UnaryOp) and node.op in ("&", "*"):
            return self.path(node.expr, env)
        raise SystemExit(f"proofs: {node} is no path")

    def field(self, node, env):
        path, index = self.path(node, env)
        key = next((key for key in self.fields if path.endswith(key)), None)
        if key is None:
            raise SystemExit(f"proofs: the type of {path} is not known")
        bits = self.fields[key]
        if index is None:
            return self.free(path, bits)
        return Value(f"(select {self.array(path, bits)} {index.term})", bits)

    def oblige(self, env, what, term):
        self.obligations.append((what, f"(=> {env['pc']} {term})"))

    def binary(self, node, env):
        op = node.op
        left = self.value(node.left, env)
        if op in ("&&", "||"):
            inner = dict(env)
            side = left.truth() if op == "&&" else f"(not {left.truth()})"
            inner["pc"] = f"(and {env['pc']} {side})"
            right = self.value(node.right, inner)
            return Value(f"({'and' if op == '&&' else 'or'} {left.truth()} {right.truth()})", 1)
        right = self.value(node.right, env)
        if op in ("<<", ">>"):
            bits = max(left.bits, 32)
            by = right.wide(bits) if right.bits <= bits else right
            self.oblige(env, f"shift in {env['fn']}", f"(bvult {by.term} {number(bits, by.bits)})")
            by = by.wide(bits)
            return Value(f"({'bvshl' if op == '<<' else 'bvlshr'} {left.wide(bits).term} {by.term})",
                         bits)
        bits = max(left.bits, right.bits, 32)
        left, right = left.wide(bits), right.wide(bits)
        compare = {"==": "=", "!=": "distinct", "<": "bvult", ">": "bvugt", "<=": "bvule",
                   ">=": "bvuge"}
        if op in compare:
            return Value(f"({compare[op]} {left.term} {right.term})", 1)
        if op in ("/", "%"):
            self.oblige(env, f"division in {env['fn']}", right.truth())
        word = {"+": "bvadd", "-": "bvsub", "*": "bvmul", "/": "bvudiv", "%": "bvurem",
                "&": "bvand", "|": "bvor", "^": "bvxor"}[op]
        return Value(f"({word} {left.term} {right.term})", bits)

    def constant(self, node):
        text = node.value.lower()
        digits = text.rstrip("ul")
        value = int(digits, 0)
        return Value(number(value, 64), 64) if "l" in text or value >= 1 << 32 else \
            Value(number(value, 32), 32)

    def builtin(self, name, args):
        """The number of zeros before the highest or behind the lowest bit; the word is not 0."""
        word = args[0].wide(64)
        term = number(0, 32)
        order = range(63, -1, -1) if name == "__builtin_ctzll" else range(64)
        for bit in order:
            zeros = bit if name == "__builtin_ctzll" else 63 - bit
            one = f"(= ((_ extract {bit} {bit}) {word.term}) #b1)"
            term = f"(ite {one} {number(zeros, 32)} {term})"
        return self.name(Value(term, 32))

    def value(self, node, env):
        if isinstance(node, c_ast.Constant):
            return self.constant(node)
        if isinstance(node, c_ast.ID):
            if node.name in ("true", "false"):
                return Value(node.name, 1)
            return env[node.name]
        if isinstance(node, (c_ast.StructRef, c_ast.ArrayRef)):
            return self.field(node, env)
        if isinstance(node, c_ast.BinaryOp):
            return self.name(self.binary(node, env))
        if isinstance(node, c_ast.TernaryOp):
            condition = self.value(node.cond, env).truth()
            yes, no = dict(env), dict(env)
            yes["pc"] = f"(and {env['pc']} {condition})"
            no["pc"] = f"(and {env['pc']} (not {condition}))"
            return self.name(choose(condition, self.value(node.iftrue, yes),
                                    self.value(node.iffalse, no)))
        if isinstance(node, c_ast.Cast):
            kind = node.to_type.type.type.names[-1]
            return self.value(node.expr, env).wide(TYPES[kind])
        if isinstance(node, c_ast.UnaryOp):
            return self.unary(node, env)
        if isinstance(node, c_ast.FuncCall):
            return self.call(node, env)
        raise SystemExit(f"proofs: an expression that is not understood: {node}")

    def unary(self, node, env):
        if node.op == "*":
            return env["*" + node.expr.name]
        if node.op in ("++", "p++", "--", "p--"):
            key, old = self.place(node.expr, env)
            word = "bvadd" if "+" in node.op else "bvsub"
            new = Value(f"({word} {old.term} {number(1, old.bits)})", old.bits)
            env[key] = self.name(choose(env["pc"], new, old))
            return old if node.op[0] == "p" else env[key]
        value = self.value(node.expr, env)
        if node.op == "!":
            return Value(f"(not {value.truth()})", 1)
        value = value.wide(max(value.bits, 32))
        return Value(f"({'bvnot' if node.op == '~' else 'bvneg'} {value.term})", value.bits)

    # --------------------------------------------------------------------------------- calls --

    def call(self, node, env):
        name = node.name.name
        given = node.args.exprs if node.args else []
        if name.startswith("__builtin_c"):
            args = [self.value(arg, env) for arg in given]
            self.oblige(env, f"{name} in {env['fn']}", args[0].truth())
            return self.builtin(name, args)
        inner, back = {"fn": name, "pc": env["pc"]}, []
        for param, arg in zip(self.functions[name].decl.type.args.params, given):
            if isinstance(param.type, c_ast.PtrDecl):
                if isinstance(arg, c_ast.UnaryOp) and arg.op == "&" and \
                        isinstance(arg.expr, c_ast.ID) and arg.expr.name in env:
                    inner["*" + param.name] = env[arg.expr.name]
                    back.append((arg.expr.name, "*" + param.name))
                elif isinstance(arg, c_ast.ID) and "*" + arg.name in env:
                    inner["*" + param.name] = env["*" + arg.name]
                    back.append(("*" + arg.name, "*" + param.name))
                else:
                    inner["&" + param.name] = self.path(arg, env)
            else:
                bits = TYPES[param.type.type.names[-1]]
                inner[param.name] = self.name(self.value(arg, env).wide(bits))
        result = self.run(name, inner)
        for outer, key in back:
            env[outer] = inner[key]
        return result

    def run(self, name, env):
        """The value of a function whose parameters are in `env`."""
        function = self.functions[name]
        returns = []
        self.block(function.body.block_items, env, returns)
        kind = function.decl.type.type.type.names[-1]
        bits = TYPES[kind]
        result = returns[-1][1].wide(bits)
        for condition, value in reversed(returns[:-1]):
            result = choose(condition, value.wide(bits), result)
        return self.name(result)

    # ---------------------------------------------------------------------------- statements --

    def place(self, node, env):
        key = "*" + node.expr.name if isinstance(node, c_ast.UnaryOp) else node.name
        return key, env[key]

    def block(self, items, env, returns):
        for item in items or []:
            self.statement(item, env, returns)

    def statement(self, node, env, returns):
        if isinstance(node, c_ast.Compound):
            self.block(node.block_items, env, returns)
        elif isinstance(node, c_ast.Decl):
            self.declare(node, env)
        elif isinstance(node, c_ast.DeclList):
            for decl in node.decls:
                self.declare(decl, env)
        elif isinstance(node, c_ast.Return):
            condition = self.name(Value(env["pc"], 1)).term
            returns.append((condition, self.value(node.expr, env)))
            env["pc"] = "false"
        elif isinstance(node, c_ast.Assignment):
            self.assign(node, env)
        elif isinstance(node, c_ast.If):
            self.fork(node.cond, node.iftrue, node.iffalse, env, returns)
        elif isinstance(node, (c_ast.While, c_ast.For)):
            self.loop(node, env, returns)
        elif isinstance(node, (c_ast.UnaryOp, c_ast.FuncCall)):
            self.value(node, env)
        else:
            raise SystemExit(f"proofs: a statement that is not understood: {node}")

    def declare(self, node, env):
        if isinstance(node.type, c_ast.PtrDecl):
            env["&" + node.name] = self.path(node.init, env)
            return
        bits = TYPES[node.type.type.names[-1]]
        start = Value("false", 1) if bits == 1 else Value(number(0, bits), bits)
        env[node.name] = start if node.init is None else \
            self.name(self.value(node.init, env).wide(bits))

    def assign(self, node, env):
        key, old = self.place(node.lvalue, env)
        if node.op == "=":
            new = self.value(node.rvalue, env)
        else:
            new = self.binary(c_ast.BinaryOp(node.op[:-1], node.lvalue, node.rvalue), env)
        # Code behind a return that was made is not run.
        env[key] = self.name(choose(env["pc"], new.wide(old.bits), old))

    def fork(self, cond, iftrue, iffalse, env, returns):
        condition = self.name(Value(self.value(cond, env).truth(), 1)).term
        yes, no = dict(env), dict(env)
        yes["pc"] = self.name(Value(f"(and {env['pc']} {condition})", 1)).term
        no["pc"] = self.name(Value(f"(and {env['pc']} (not {condition}))", 1)).term
        if iftrue is not None:
            self.statement(iftrue, yes, returns)
        if iffalse is not None:
            self.statement(iffalse, no, returns)
        for key, value in yes.items():
            if isinstance(value, Value) and key in no:
                env[key] = self.name(choose(condition, value, no[key]))
        env["pc"] = self.name(Value(f"(or {yes['pc']} {no['pc']})", 1)).term

    def loop(self, node, env, returns, most=40):
        if isinstance(node, c_ast.For) and node.init is not None:
            self.statement(node.init, env, returns)
        step = [node.stmt] + ([node.next] if isinstance(node, c_ast.For) and node.next else [])
        for _ in range(most):
            self.fork(node.cond, c_ast.Compound(step), None, env, returns)
        self.oblige(env, f"loop of {env['fn']} ends",
                    f"(not {self.value(node.cond, env).truth()})")
