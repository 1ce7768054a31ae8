#!/usr/bin/env python3
"""Times PyTorch on the problems and inputs of knobwise_reference_bench: eager (NCHW and channels-last) and
torch.compile (max-autotune), in fp32, in fp32 with TF32 allowed, and with fp16 tensors.

    bench/pytorch_reference.py [FILE] [--seed N] [--max-time SECONDS] [--json OUT]
    bench/pytorch_reference.py --print-operands PROBLEM [--seed N]     # needs no PyTorch

Medians of 30 replays of a CUDA graph, the L2 cache flushed before each outside the timed region; the conversion
to channels-last is not counted. Errors are against float64, over every output. What the time limit cut is shown
as "-", what missed its accuracy with a "!". Exit status 1 when a variant failed, 2 for a wrong request.
"""
import argparse
import json
import math
import pathlib
import re
import signal
import statistics
import struct
import sys
import time

# The accuracy words of knobwise (kernels/accuracy.h) with the mode of PyTorch that each asks for.
MODES = {"allclose": ("float32", False), "tf32": ("float32", True), "half": ("float16", True)}
VARIANTS = ("eager", "channels-last", "compile")
SAMPLES = 30


class TimeLimit(BaseException):
    """Not an Exception: the compiler must not take it for a failed kernel."""


# --- Problems ------------------------------------------------------------------------------------------------


class Problem:
    """One problem line, as far as PyTorch has its steps."""

    def __init__(self, line):
        head, *steps = [part.strip() for part in line.split("|")]
        kind, *words = head.split()
        rank = re.fullmatch(r"conv([123])d", kind)
        if not rank:
            raise ValueError(f"'{kind}' is no convolution: conv1d, conv2d or conv3d")
        self.line, self.rank = line, int(rank[1])
        options = dict(word.split("=", 1) for word in words if "=" in word)
        self.bias = "bias" in words
        self.n, self.c, self.k = (extent for name in "nck" for extent in self._extents(options, name))
        self.size = self._extents(options, "dhw"[3 - self.rank:])
        self.filter = self._extents(options, "trs"[3 - self.rank:])
        self.stride, self.pad, self.dilation = (
            self._lengths(options.pop(name, default))
            for name, default in (("stride", "1"), ("pad", "0"), ("dilation", "1")))
        self.groups = int(options.pop("groups", 1))
        if options:
            raise ValueError(f"'{next(iter(options))}=' in '{line}' is not supported here")
        extents = (self.n, self.c, self.k, *self.size, *self.filter, *self.stride, *self.dilation, self.groups)
        if min(extents) < 1 or self.c % self.groups:
            raise ValueError(f"'{line}': extents are positive, and groups divide the channels")
        self.steps = [step.split() for step in steps]
        self.fan_in = self.c // self.groups * math.prod(self.filter)

    def _extents(self, options, names):
        missing = [name for name in names if name not in options]
        if missing:
            raise ValueError(f"'{missing[0]}=' is missing in '{self.line}'")
        return tuple(int(options.pop(name)) for name in names)

    def _lengths(self, text):
        values = tuple(int(value) for value in text.split("x"))
        return values * self.rank if len(values) == 1 else values

    def tensors(self):
        """(index of the parameter, shape) of the input (-1) and of every parameter, in knobwise's order."""
        shapes = [(self.n, self.c, *self.size), (self.k, self.c // self.groups, *self.filter)]
        if self.bias:
            shapes.append((self.k,))
        for step in self.steps:
            if "affine" in step:
                shapes += [(self.k,), (self.k,)]
        return list(enumerate(shapes, -1))


def read_problems(path):
    lines = (line.split("#")[0].strip() for line in path.read_text().splitlines())
    return [Problem(line) for line in lines if line]


# --- Inputs: kernels/operands.h, distribution "uniform" ------------------------------------------------------
# The same code serves Python's integers and PyTorch's 64-bit tensors, whose products wrap by themselves.


def signed(value):
    """An integer as 64 bits with a sign; a tensor is that already."""
    return (value + 2**63) % 2**64 - 2**63 if isinstance(value, int) else value


def shifted(value, bits):
    """Right, zeros coming in."""
    return (value >> bits) & ((1 << (64 - bits)) - 1)


def operand_bits(seed, index):
    z = signed(seed + signed((index + 1) * signed(0x9E3779B97F4A7C15)))
    z = signed((z ^ shifted(z, 30)) * signed(0xBF58476D1CE4E5B9))
    z = signed((z ^ shifted(z, 27)) * signed(0x94D049BB133111EB))
    return z ^ shifted(z, 31)


def operand_values(problem, seed, parameter, index):
    """Elements of the input (-1) or of a parameter before they are rounded to the tensor's type."""
    stream = operand_bits(signed(seed), (parameter + 1) * 3)
    scale, = struct.unpack("f", struct.pack("f", 1 / math.sqrt(problem.fan_in)))
    weights = parameter == 0 or (parameter == 1 and problem.bias)
    low, high = (-scale, scale) if weights else (0.0, 1.0)
    top = shifted(operand_bits(stream, index), 40)
    return low + (high - low) * ((top if isinstance(top, int) else top.double()) * 2**-24)


def sampled(shape):
    elements = math.prod(shape)
    return sorted({index for index in (0, 1, 2, elements // 2, elements - 1) if index < elements})


def print_operands(problem, seed):
    for parameter, shape in problem.tensors():
        for index in sampled(shape):
            print(parameter, index, repr(operand_values(problem, seed, parameter, index)))


def make_tensors(problem, seed, dtype):
    import torch
    tensors = []
    for parameter, shape in problem.tensors():
        index = torch.arange(math.prod(shape), dtype=torch.int64, device="cuda")
        values = operand_values(problem, seed, parameter, index)
        for element in sampled(shape):
            assert values[element].item() == operand_values(problem, seed, parameter, element)
        tensors.append(values.float().to(dtype).reshape(shape))
    return tensors


# --- Computing and measuring -----------------------------------------------------------------------------------


def step_functions(problem):
    """The steps of the epilogue as functions of the values so far and the parameters."""
    import torch
    import torch.nn.functional as F
    functions = []
    used = 2 if problem.bias else 1
    for name, *words in problem.steps:
        if name in ("add", "sub", "mul", "div"):
            functions.append(lambda x, _, operation=getattr(torch, name), value=float(words[0]): operation(x, value))
        elif name == "relu":
            functions.append(lambda x, _: F.relu(x))
        elif name == "leaky_relu":
            functions.append(lambda x, _, slope=float(words[0]): F.leaky_relu(x, slope))
        elif name == "min" and words == ["depth"]:
            functions.append(lambda x, _: x.amin(dim=2))
        elif name == "softmax" and words == ["channel"]:
            functions.append(lambda x, _: x.softmax(dim=1))
        elif name == "group_norm" and words[2:] == ["affine"]:
            groups, eps = int(words[0].removeprefix("groups=")), float(words[1].removeprefix("eps="))
            functions.append(lambda x, parameters, groups=groups, eps=eps, first=used: F.group_norm(
                x, groups, parameters[first], parameters[first + 1], eps))
            used += 2
        else:
            raise ValueError(f"'{name} {' '.join(words)}' is not supported here")
    return functions


def network(problem):
    """The problem in PyTorch's own operations: a function of the input and the parameters."""
    import torch.nn.functional as F
    convolve = (F.conv1d, F.conv2d, F.conv3d)[problem.rank - 1]
    steps = step_functions(problem)
    bias, options = problem.bias, (problem.stride, problem.pad, problem.dilation, problem.groups)

    def forward(x, parameters):
        x = convolve(x, parameters[0], parameters[1] if bias else None, *options)
        for step in steps:
            x = step(x, parameters)
        return x

    return forward


class Case:
    """One problem with tensors of one type, and what the outputs should be."""

    def __init__(self, problem, seed, dtype):
        import torch
        self.problem = problem
        self.x, *self.parameters = make_tensors(problem, seed, getattr(torch, dtype))
        self.network = network(problem)
        torch.backends.cudnn.benchmark = False  # once is enough
        exact = [parameter.double() for parameter in self.parameters]
        self.reference = torch.cat([self.network(part.double(), exact) for part in self.x.split(8)])

    def error(self, output):
        difference = (output.double() - self.reference).abs()
        outside = ~(difference <= 1e-4 + 1e-4 * self.reference.abs())
        return {"max_abs": difference.max().item(),
                "rel_fro": (difference.norm() / self.reference.norm()).item(),
                "frac_outside": outside.double().mean().item()}

    def variant(self, name):
        """The call to time; none where the variant does not exist."""
        import torch
        x, parameters = self.x, self.parameters
        if name == "channels-last":
            if self.problem.rank == 1:
                return None
            layout = torch.channels_last if self.problem.rank == 2 else torch.channels_last_3d
            x = x.contiguous(memory_format=layout)
            parameters = [parameters[0].contiguous(memory_format=layout), *parameters[1:]]
        function = self.network
        if name == "compile":
            torch._dynamo.reset()
            function = torch.compile(function, mode="max-autotune-no-cudagraphs")
        return lambda: function(x, parameters)


def accepts(accuracy, error):
    if accuracy == "allclose":
        return error["frac_outside"] == 0
    return error["rel_fro"] <= {"tf32": 1e-3, "half": 2e-3}[accuracy]


def median_us(call, flushed):
    """Of replays of a graph of the call."""
    import torch
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    samples = []
    for sample in range(-2, SAMPLES):
        start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        flushed.zero_()
        start.record()
        graph.replay()
        stop.record()
        stop.synchronize()
        if sample >= 0:
            samples.append(1000 * start.elapsed_time(stop))
    return statistics.median(samples)


def measure(case, accuracy, name, flushed):
    import torch
    tf32 = MODES[accuracy][1]
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = tf32
    torch.backends.cuda.matmul.allow_tf32 = tf32
    call = case.variant(name)
    if call is None:
        return None
    error = case.error(call())
    return {"us": median_us(call, flushed), **error, "accepted": accepts(accuracy, error)}


# --- The table -------------------------------------------------------------------------------------------------


def cell(result):
    if result is None:
        return "-"
    return "failed" if "failure" in result else f"{result['us']:.1f}{'' if result['accepted'] else '!'}"


def print_table(problems, results, device, version):
    print(f"{device}, PyTorch {version}: microseconds, errors of the best against float64")
    print(f"{'':<4}{'accuracy':<9}{'eager':>10}{'ch.-last':>11}{'compile':>10}{'best':>10}{'max':>9}{'rel':>9}")
    for index, problem in enumerate(problems):
        for accuracy in MODES:
            row = [results.get((index, accuracy, name)) for name in VARIANTS]
            good = [result for result in row if result and result.get("accepted")]
            best = min(good, key=lambda result: result["us"], default=None)
            errors = [f"{best[key]:.1e}" if best else "-" for key in ("max_abs", "rel_fro")]
            print(f"P{index + 1:<3}{accuracy:<9}{cell(row[0]):>10}{cell(row[1]):>11}{cell(row[2]):>10}"
                  f"{cell(best):>10}{errors[0]:>9}{errors[1]:>9}")
    for index, problem in enumerate(problems):
        print(f"P{index + 1} {problem.line}")


def run(problems, seed, max_time, results):
    """Fills `results`: the quick variants of every problem, then the compiled ones, short problems first. Raises
    TimeLimit."""
    import torch

    def stop(*_):
        raise TimeLimit

    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, max_time)
    start = time.monotonic()
    flushed = torch.empty(256 << 20, dtype=torch.int8, device="cuda")
    cases = {}

    def measure_all(index, names):
        for accuracy, (dtype, _) in MODES.items():
            for name in names:
                try:
                    if (index, dtype) not in cases:
                        cases[index, dtype] = Case(problems[index], seed, dtype)
                    result = measure(cases[index, dtype], accuracy, name, flushed)
                except Exception as error:  # one variant that fails is no reason to stop
                    result = {"failure": f"{type(error).__name__}: {error}"[:300]}
                results[index, accuracy, name] = result
                print(f"{time.monotonic() - start:6.1f} s  P{index + 1} {accuracy} {name}: {result}", file=sys.stderr,
                      flush=True)

    with torch.no_grad():
        for index in range(len(problems)):
            measure_all(index, VARIANTS[:2])
        eager = [results[index, "allclose", "eager"].get("us", math.inf) for index in range(len(problems))]
        for index in sorted(range(len(problems)), key=eager.__getitem__):
            measure_all(index, VARIANTS[2:])


def main():
    parser = argparse.ArgumentParser(description="Times PyTorch on knobwise's problems and inputs.")
    default = pathlib.Path(__file__).with_name("reference_problems.txt")
    parser.add_argument("file", nargs="?", type=pathlib.Path, default=default, help="fp32 problems, one a line")
    parser.add_argument("--seed", type=int, default=0, help="of the inputs")
    parser.add_argument("--max-time", type=float, default=600, help="seconds after which no more is measured")
    parser.add_argument("--json", type=pathlib.Path, help="write the results there as well")
    parser.add_argument("--print-operands", metavar="PROBLEM", help="print a few elements of its tensors")
    arguments = parser.parse_args()
    try:
        if arguments.print_operands:
            print_operands(Problem(arguments.print_operands), arguments.seed)
            return 0
        problems = read_problems(arguments.file)
        if not problems:
            raise ValueError(f"{arguments.file}: no problems in it; give one problem a line")
        if not 0 < arguments.max_time < math.inf:
            raise ValueError(f"--max-time {arguments.max_time}: give a positive number of seconds")
    except (OSError, ValueError) as error:
        print(f"pytorch_reference.py: {error}", file=sys.stderr)
        return 2
    try:
        import torch
        device = torch.cuda.get_device_name()
    except (ImportError, AssertionError, RuntimeError) as error:
        print(f"pytorch_reference.py: PyTorch with a CUDA device is needed: {error}", file=sys.stderr)
        return 2
    results = {}
    try:
        if arguments.json:
            arguments.json.touch()  # before anything is measured
    except OSError as error:
        print(f"pytorch_reference.py: {error}", file=sys.stderr)
        return 2
    try:
        run(problems, arguments.seed, arguments.max_time, results)
    except TimeLimit:
        print(f"stopped after {arguments.max_time:.0f} s", file=sys.stderr)
    signal.setitimer(signal.ITIMER_REAL, 0)
    print_table(problems, results, device, torch.__version__)
    if arguments.json:
        rows = [{"problem": problems[index].line, "accuracy": accuracy, "variant": name, **(result or {})}
                for (index, accuracy, name), result in results.items()]
        arguments.json.write_text(json.dumps({"device": device, "pytorch": torch.__version__, "rows": rows}, indent=1))
    return int(any(result and "failure" in result for result in results.values()))


if __name__ == "__main__":
    sys.exit(main())
