# SPDX-License-Identifier: MIT
"""Runs one workload under the allocator of its process, for shard.py. Not meant to be started by
hand.

Reads a command a line from standard input, answers with an event a line, both JSON. It says "up"
when the libraries are loaded, and touches the GPU only when it is told to start: shard.py starts
processes ahead.

    {"do": "start", "workload": NAME, ...}    ready {...} or failed {...}
    {"do": "steps", "from": A, "to": B}       steps {seconds, values} or failed {...}
    {"do": "end"}                             ended {...}
"""
import argparse
import hashlib
import importlib
import json
import os
import sys
import time
import traceback

import torch

from workloads import REGISTRY


class Lines:
    """Lines to and from the driver. What libraries print goes to standard error."""

    def __init__(self):
        self.out = os.dup(1)
        os.dup2(2, 1)

    def say(self, event, **fields):
        os.write(self.out, (json.dumps({"event": event, **fields}) + "\n").encode())

    @staticmethod
    def hear():
        """The next command; None at the end."""
        line = sys.stdin.readline()
        return json.loads(line) if line else None


def settle(device, deterministic):
    """The same choice of kernels in each process."""
    if deterministic:
        torch.use_deterministic_algorithms(True, warn_only=True)
        torch.utils.deterministic.fill_uninitialized_memory = False
    if device.type == "cuda":
        torch.backends.cuda.enable_mem_efficient_sdp(False)
        torch.backends.cuda.enable_cudnn_sdp(False)


def amounts(device):
    """What the allocator says about itself, under PyTorch's names."""
    if device.type != "cuda":
        return {}
    stats = torch.cuda.memory_stats()
    keys = {"peak_reserved_bytes": "reserved_bytes.all.peak",
            "peak_allocated_bytes": "allocated_bytes.all.peak",
            "peak_requested_bytes": "requested_bytes.all.peak",
            "allocations": "allocation.all.allocated", "retries": "num_alloc_retries",
            "ooms": "num_ooms"}
    return {name: stats.get(key) for name, key in keys.items()}


def digest(model):
    """A hash of every parameter, bit by bit."""
    total = hashlib.sha256()
    for name, tensor in model.state_dict().items():
        if not isinstance(tensor, torch.Tensor):
            continue
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        total.update(name.encode())
        total.update(flat.view(torch.uint8).numpy().tobytes())
    return total.hexdigest()


def value_of(result):
    """A value of a step as text that holds every bit of it."""
    if result.numel() == 1:
        return float(result).hex()
    return hashlib.sha256(result.cpu().contiguous().numpy().tobytes()).hexdigest()


def failure(error):
    return {"what": f"{type(error).__name__}: {error}"[:2000],
            "out_of_memory": isinstance(error, torch.OutOfMemoryError),
            "trace": traceback.format_exc()[-2000:]}


class Runner:
    """One workload."""

    def __init__(self, lines, command):
        self.lines, self.command = lines, command
        self.device = torch.device(command.get("device", "cuda"))
        self.gpu = self.device.type == "cuda"

    def sync(self):
        if self.gpu:
            torch.cuda.synchronize()

    def build(self):
        cls = REGISTRY[self.command["workload"]]
        settle(self.device, cls.deterministic)
        cap = self.command.get("cap_bytes")
        if cap and self.gpu:
            total = torch.cuda.get_device_properties(self.device).total_memory
            torch.cuda.set_per_process_memory_fraction(cap / total)
        options = self.command.get("options", {})
        self.work = cls(self.device, self.command.get("size", "full") == "full", **options)
        self.sync()
        backend = torch.cuda.get_allocator_backend() if self.gpu else "none"
        self.lines.say("ready", deterministic=cls.deterministic, backend=backend,
                       **amounts(self.device))

    def steps(self, first, last):
        seconds, values = [], []
        for step in range(first, last):
            self.sync()
            begun = time.perf_counter()
            result = self.work.step(step)
            self.sync()
            seconds.append(time.perf_counter() - begun)
            values.append(value_of(result))
        self.lines.say("steps", seconds=seconds, values=values)

    def run(self):
        try:
            self.build()
            while (command := self.lines.hear()) is not None:
                if command["do"] == "steps":
                    self.steps(command["from"], command["to"])
                elif command["do"] == "end":
                    known = amounts(self.device)
                    hashed = digest(self.work.trained()) if command.get("digest") else None
                    self.lines.say("ended", digest=hashed, **known)
                    return 0
        except Exception as error:  # pylint: disable=broad-except # every failure is a result
            self.lines.say("failed", **failure(error), **self.left())
            return 1
        return 2

    def left(self):
        try:
            return amounts(self.device)
        except Exception:  # pylint: disable=broad-except # the device may be lost
            return {}


NEEDS = {"vit": ["timm"], "bert": ["transformers"], "gpt2": ["transformers"],
         "lora": ["transformers", "peft"], "generate": ["transformers"],
         "maskrcnn": ["torchvision"]}


def load(name):
    """Imports what a workload will; what is missing shows when it starts."""
    for needed in NEEDS.get(name, []):
        try:
            importlib.import_module(needed)
        except ImportError:
            pass


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("workload")
    parser.add_argument("--enable", action="store_true", help="call weir.torch.enable()")
    args = parser.parse_args()
    lines = Lines()
    if args.enable:
        import weir.torch

        weir.torch.enable()
    torch.set_num_threads(max(1, (os.cpu_count() or 2) // 4))
    load(args.workload)
    lines.say("up", torch=torch.__version__)
    command = lines.hear()
    return Runner(lines, command).run() if command else 0


if __name__ == "__main__":
    sys.exit(main())
