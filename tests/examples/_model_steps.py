# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""Training steps of published model shapes as memory snapshots in PyTorch's form: `python3 _model_steps.py FOLDER [MODEL...]`.

Each step allocates and frees what eager PyTorch does for the same operators: outputs, tensors saved for the backward pass, their
gradients, workspaces, gradients of parameters, and the state and the temporaries of the optimizer. Shapes are from the papers and
configuration files of the models; some have fewer layers, so that a trace stays small. The seed determines lengths, routes and sizes of
workspaces."""

import pathlib
import pickle
import random
import sys

KiB, MiB = 1 << 10, 1 << 20


class Device:
    """Records allocations as PyTorch's allocator does. A block has an address of its own, so that none is ambiguous."""

    def __init__(self, seed):
        self.pick = random.Random(seed)
        self.trace, self.live, self.address, self.time = [], {}, 1 << 44, 10**15

    def new(self, size, where):
        size = max(int(size), 1)
        self.time += 3
        at, self.address = self.address, self.address + -(-size // (2 * MiB)) * 2 * MiB
        self.trace.append({"action": "alloc", "addr": at, "size": size, "stream": 0, "time_us": self.time, "frames": self.frames(where)})
        self.live[at] = size, where
        return at

    def free(self, *blocks):
        for at in blocks:
            size, _ = self.live.pop(at)
            self.time += 1
            for action in ("free_requested", "free_completed"):
                self.trace.append({"action": action, "addr": at, "size": size, "stream": 0, "time_us": self.time, "frames": []})

    def scratch(self, size, where):
        self.free(self.new(size, where))

    def snapshot(self):
        segments = [{"device": 0, "address": at, "total_size": -(-size // 512) * 512, "is_expandable": False, "stream": 0, "blocks": [
            {"address": at, "size": -(-size // 512) * 512, "requested_size": size, "state": "active_allocated", "frames": self.frames(where)}]}
            for at, (size, where) in self.live.items()]
        return {"segments": segments, "device_traces": [self.trace], "allocator_settings": {}}

    known = {}

    def frames(self, where):  # one list for a site, as in PyTorch's files
        return self.known.setdefault(where, [{"name": where, "filename": "/home/me/model.py", "line": 10 + len(self.known)}])


class Model:
    """Parameters, their gradients and the optimizer's state. `width`: bytes of an activation's element."""

    def __init__(self, device, width=2, weight=4, optimizer="adamw"):
        self.d, self.width, self.weight, self.optimizer = device, width, weight, optimizer
        self.parameters, self.gradients, self.state = [], {}, {}

    def parameter(self, count, trained=True):
        self.d.new(count * self.weight, "parameter")
        self.parameters.append((len(self.parameters), count) if trained else None)
        return len(self.parameters) - 1

    def gradient(self, parameter):
        """Of one use: it is kept, or added to the one that is there and freed."""
        if self.parameters[parameter] is None: return
        number, count = self.parameters[parameter]
        block = self.d.new(count * self.weight, "weight_gradient")
        if number in self.gradients: self.d.free(block)
        else: self.gradients[number] = block

    def update(self):
        """The norm of each gradient, then the parameters in turn or all at once, and the gradients set to None."""
        trained = [p for p in self.parameters if p]
        norms = [self.d.new(4, "clip_gradients") for _ in trained]
        self.d.free(self.d.new(4 * len(norms), "clip_gradients"), *norms)
        if self.optimizer == "adamw":
            for number, count in trained:
                if number not in self.state:
                    self.state[number] = [self.d.new(4 * count, "optimizer_state") for _ in range(2)]
            for number, count in trained:  # denom = (exp_avg_sq.sqrt() / c).add_(eps)
                root = self.d.new(4 * count, "optimizer_step")
                denominator = self.d.new(4 * count, "optimizer_step")
                self.d.free(root, denominator)
        else:  # "foreach": temporaries of all parameters live at once
            for number, count in trained:
                if number not in self.state: self.state[number] = [self.d.new(4 * count, "optimizer_state")]
            self.d.free(*[self.d.new(4 * count, "optimizer_step") for _, count in trained])
        self.d.free(*self.gradients.values())
        self.gradients.clear()


class Saved:
    """What a Block saves for its backward pass. `nets`: rows and blocks of each feed-forward network."""

    def __init__(self, own, cross, norm, middle, nets):
        self.own, self.cross, self.norm, self.middle, self.nets = own, cross, norm, middle, nets

    def blocks(self):
        return [*self.own, *self.cross, *self.norm, *self.middle, *(block for _, blocks in self.nets for block in blocks)]


class Chain:
    """Layers in order. A layer's `forward` returns its output and what it saves; `backward` frees what was saved."""

    def __init__(self, model, layers, checkpoint=False):
        self.m, self.layers, self.checkpoint = model, layers, checkpoint

    def step(self, size, loss):
        """`size`: of the batch, in whatever the layers count; `loss(size, x)` returns the gradient of x and frees its own blocks."""
        d = self.m.d
        inputs = d.new(8 * size[0] * size[1], "batch")
        x = d.new(self.layers[0].input_bytes(size), "embed")
        kept = []
        for layer in self.layers:
            out, saved = layer.forward(size, x)
            if self.checkpoint:
                d.free(*saved.blocks())
                saved = None
            kept.append((layer, x, saved))
            x = out
        gradient = loss(size, x)
        d.free(x)
        for layer, x, saved in reversed(kept):
            if saved is None:  # the forward pass of the layer once more
                out, saved = layer.forward(size, x)
                d.free(out)
            gradient = layer.backward(size, gradient, saved)
            d.free(x)
        d.free(gradient, inputs)


class Linear:
    def __init__(self, model, inner, outer, bias=True, trained=True, rank=0):
        self.m, self.inner, self.outer = model, inner, outer
        self.w = [model.parameter(inner * outer, trained)] + ([model.parameter(outer, trained)] if bias else [])
        self.low = [model.parameter(inner * rank), model.parameter(rank * outer)] if rank else []
        self.rank = rank

    def forward(self, rows, where):
        """Its output, and what its adapter saves."""
        d, m = self.m.d, self.m
        out = d.new(rows * self.outer * m.width, where)
        if d.pick.random() < 0.1: d.scratch(d.pick.choice((8 * MiB + 131072, 4 * MiB, 1 * MiB)), "workspace")
        if not self.low: return out, []
        low = d.new(rows * self.rank * m.width, "adapter")
        wide = d.new(rows * self.outer * m.width, "adapter")
        total = d.new(rows * self.outer * m.width, "adapter")
        d.free(wide, out)
        return total, [low]

    def backward(self, rows):
        """The gradient of its input. The gradients of its weights are kept."""
        into = self.m.d.new(rows * self.inner * self.m.width, "backward")
        for w in self.low + self.w: self.m.gradient(w)
        return into


class Block:
    """A transformer's block: attention without the matrix of scores, and a feed-forward network or experts."""

    def __init__(self, model, width, heads, inner, gated=False, experts=0, trained=True, rank=0, cross=0):
        self.m, self.width, self.heads, self.inner, self.gated = model, width, heads, inner, gated
        self.norms = [[model.parameter(width, trained) for _ in range(1 if gated else 2)] for _ in range(3 if cross else 2)]
        bias = not gated
        self.qkv = [Linear(model, width, width, bias, trained, rank) for _ in range(3)]
        self.out = Linear(model, width, width, bias, trained)
        self.cross = cross and [Linear(model, width, width, False), Linear(model, cross, width, False), Linear(model, cross, width, False),
                                Linear(model, width, width)]
        self.router = model.parameter(width * experts) if experts else None
        self.nets = [[Linear(model, width, inner, bias, trained) for _ in range(2 if gated else 1)] + [Linear(model, inner, width, bias, trained)]
                     for _ in range(max(experts, 1))]

    def input_bytes(self, size):
        return size[0] * size[1] * self.width * self.m.width

    def attend(self, rows, other, x, projections, out):
        """What is saved, and the sum of x and the attention's output."""
        d, w = self.m.d, self.m.width
        norm = d.new(rows * self.width * w, "norm")
        saved = [norm, d.new(4 * rows, "norm"), d.new(4 * rows, "norm")]
        parts = []
        for i, p in enumerate(projections):
            part, more = p.forward(rows if i == 0 else other, "attention")
            parts.append(part)
            saved += more
        attended = d.new(rows * self.width * w, "attention")
        saved += parts + [attended, d.new(4 * rows * self.heads, "attention"), d.new(16, "attention")]
        projected, more = out.forward(rows, "attention")
        total = d.new(rows * self.width * w, "residual")
        d.free(projected)
        return saved + more, total

    def net(self, rows, x, linears):
        """What is saved, and the output."""
        d, w = self.m.d, self.m.width
        saved = []
        for linear in linears[:-1]:
            out, more = linear.forward(rows, "feed_forward")
            saved += [out] + more
        saved.append(d.new(rows * self.inner * w, "activation"))
        if self.gated: saved.append(d.new(rows * self.inner * w, "gate"))
        out, more = linears[-1].forward(rows, "feed_forward")
        return saved + more, out

    def forward(self, size, x):
        d, w = self.m.d, self.m.width
        rows = size[0] * size[1]
        own, x = self.attend(rows, rows, x, self.qkv, self.out)
        middle, cross = [x], []
        if self.cross:
            cross, x = self.attend(rows, size[0] * 77, x, self.cross[:3], self.cross[3])
            middle.append(x)
        normed = d.new(rows * self.width * w, "norm")
        norm, nets = [normed, d.new(4 * rows, "norm"), d.new(4 * rows, "norm")], []
        if self.router is None:
            saved, mixed = self.net(rows, normed, self.nets[0])
            nets.append((rows, saved))
        else:
            logits = d.new(rows * len(self.nets) * 4, "router")
            norm += [logits, d.new(rows * 2 * 8, "router"), d.new(rows * 2 * 4, "router")]
            shares = [d.pick.gammavariate(4, 1) for _ in self.nets]
            mixed = d.new(rows * self.width * w, "experts")
            for share, linears in zip(shares, self.nets):
                of_expert = max(1, int(2 * rows * share / sum(shares)))
                index, gathered = d.new(8 * of_expert, "experts"), d.new(of_expert * self.width * w, "experts")
                saved, out = self.net(of_expert, gathered, linears)
                weighted = d.new(of_expert * self.width * w, "experts")
                nets.append((of_expert, [index, gathered, out] + saved))
                d.free(weighted)
        total = d.new(rows * self.width * w, "residual")
        d.free(mixed)
        return total, Saved(own, cross, norm, middle, nets)

    def backward(self, size, gradient, kept):
        d, w = self.m.d, self.m.width
        rows = size[0] * size[1]
        into = None
        if self.router is not None: into = d.new(rows * self.width * w, "backward")
        for (count, saved), linears in reversed(list(zip(kept.nets, self.nets))):
            g = d.new(count * self.width * w, "backward") if self.router is not None else gradient
            inner = linears[-1].backward(count)
            d.free(saved.pop())
            for linear in linears[:-1]:
                before = d.new(count * self.inner * w, "backward")
                part = linear.backward(count)
                d.free(before)
                if into is None: into = part
                else: d.free(part)
            d.free(inner, *saved)
            if g != gradient: d.free(g)
        if self.router is not None: self.m.gradient(self.router)
        gradient = self.through_norm(rows, gradient, into, self.norms[-1], kept.norm)
        if self.cross: gradient = self.through_attention(rows, size[0] * 77, gradient, self.cross[:3], self.cross[3], kept.cross, self.norms[1])
        gradient = self.through_attention(rows, rows, gradient, self.qkv, self.out, kept.own, self.norms[0])
        d.free(*kept.middle)
        return gradient

    def through_norm(self, rows, gradient, into, norm, saved):
        d = self.m.d
        before = d.new(rows * self.width * self.m.width, "backward")
        for p in norm: self.m.gradient(p)
        total = d.new(rows * self.width * self.m.width, "backward")
        d.free(into, before, gradient, *saved)
        return total

    def through_attention(self, rows, other, gradient, projections, out, saved, norm):
        d, w = self.m.d, self.m.width
        attended = out.backward(rows)
        parts = [d.new((rows if i == 0 else other) * self.width * w, "backward") for i in range(3)]
        d.scratch(4 * rows * self.width, "attention_backward")  # an accumulator of 32 bits
        d.free(attended)
        into = None
        for i, (p, part) in enumerate(zip(projections, parts)):
            more = p.backward(rows if i == 0 else other)
            d.free(part)
            if into is None: into = more
            elif other == rows:
                d.free(into)
                into = more
            else: d.free(more)
        return self.through_norm(rows, gradient, into, norm, saved)


class Residual:
    """Two convolutions with group norms, of a U-Net. `skip`: channels that come from the way down."""

    def __init__(self, model, inner, outer):
        self.m, self.inner, self.outer = model, inner, outer
        self.w = [model.parameter(n) for n in (inner, inner, inner * outer * 9, outer, outer, outer, outer * outer * 9, outer)]
        self.time = model.parameter(1280 * outer)

    def bytes(self, size, channels): return size[0] * size[1] * channels * self.m.width

    def forward(self, size):
        d = self.m.d
        saved = [d.new(self.bytes(size, self.inner), "norm"), d.new(size[0] * 256, "norm"), d.new(self.bytes(size, self.inner), "silu")]
        d.scratch(d.pick.randrange(1, 64) * MiB, "convolution")
        saved += [d.new(self.bytes(size, self.outer), "convolution"), d.new(size[0] * self.outer * 2, "time")]
        saved += [d.new(self.bytes(size, self.outer), "norm"), d.new(size[0] * 256, "norm"), d.new(self.bytes(size, self.outer), "silu")]
        d.scratch(d.pick.randrange(1, 64) * MiB, "convolution")
        out = d.new(self.bytes(size, self.outer), "convolution")
        total = d.new(self.bytes(size, self.outer), "residual")
        d.free(out)
        return total, saved

    def backward(self, size, gradient, saved):
        d = self.m.d
        for channels, part in ((self.outer, saved[5:]), (self.inner, saved[:5])):
            d.scratch(d.pick.randrange(1, 96) * MiB, "convolution_backward")
            into = d.new(self.bytes(size, channels), "backward")
            for w in self.w[4:] if channels == self.outer and part == saved[5:] else self.w[:4]: self.m.gradient(w)
            activation = d.new(self.bytes(size, channels), "backward")
            d.free(into, gradient, *part)
            gradient = activation
        self.m.gradient(self.time)
        return gradient


def language_model(device, width, heads, inner, layers, vocabulary, lengths, batch, steps, **options):
    """Steps of a causal language model; `lengths(pick)` is the length of the next batch."""
    checkpoint, trained, optimizer = options.pop("checkpoint", False), options.get("trained", True), options.pop("optimizer", "adamw")
    model = Model(device, weight=2 if not trained else 4, optimizer=optimizer)
    embedding = model.parameter(vocabulary * width, trained)
    chain = Chain(model, [Block(model, width, heads, inner, **options) for _ in range(layers)], checkpoint)

    def loss(size, x):
        rows = size[0] * size[1]
        logits = device.new(rows * vocabulary * 2, "logits")
        exact = device.new(rows * vocabulary * 4, "cross_entropy")
        logs = device.new(rows * vocabulary * 4, "cross_entropy")
        scalar = device.new(4, "cross_entropy")
        device.free(exact)
        of_logs = device.new(rows * vocabulary * 4, "cross_entropy_backward")
        device.free(logs)
        of_logits = device.new(rows * vocabulary * 2, "cross_entropy_backward")
        device.free(of_logs, logits)
        gradient = device.new(rows * width * 2, "backward")
        model.gradient(embedding)
        device.free(of_logits, scalar)
        return gradient

    device.new(8 * MiB + 131072, "workspace")
    for _ in range(steps):
        chain.step((batch, lengths(device.pick)), loss)
        model.update()


def diffusion(device, steps):
    """The U-Net of Stable Diffusion 1 in its levels, with buckets of aspect ratios, and averaged weights."""
    model = Model(device)
    widths = (320, 640, 1280)
    down = [(level, Residual(model, widths[max(level - 1, 0)] if not i else w, w), Block(model, w, 8, 4 * w, cross=768))
            for level, w in enumerate(widths) for i in range(2)]
    up = [(level, Residual(model, 2 * w, w), Block(model, w, 8, 4 * w, cross=768)) for level, w in reversed(list(enumerate(widths))) for _ in range(2)]
    for p in list(model.parameters): device.new(4 * p[1], "averaged_weights")
    for _ in range(steps):
        height, width = device.pick.choice(((64, 64), (56, 72), (48, 80), (72, 56), (64, 56)))
        batch, kept, skips = 8, [], []
        def size(level): return batch, height * width >> 2 * level
        x = device.new(batch * height * width * 320 * 2, "convolution")
        skips.append(x)
        for level, residual, block in down:
            x, saved = residual.forward(size(level))
            kept.append((residual, level, saved, []))
            x, more = block.forward(size(level), x)
            kept.append((block, level, more, [skips[-1]]))
            skips.append(x)
        tops = []
        for level, residual, block in up:
            joined = device.new(2 * residual.bytes(size(level), residual.outer), "concatenate")
            x, saved = residual.forward(size(level))
            kept.append((residual, level, saved, [joined]))
            top, more = block.forward(size(level), x)
            kept.append((block, level, more, [x]))
            tops.append(top)
        gradient = device.new(batch * height * width * 320 * 2, "loss")
        for layer, level, saved, inputs in reversed(kept):
            gradient = layer.backward(size(level), gradient, saved)
            device.free(*inputs)
        device.free(gradient, skips[-1], *tops)
        model.update()


def uniform(length): return lambda pick: length
def varying(longest): return lambda pick: pick.randrange(longest // 8, longest + 1)


MODELS = {
    # GPT-2 XL's block, and the whole of a GPT-3 of 2.7 billion parameters: Radford et al. 2019; Brown et al. 2020, table 2.1
    "gpt2": lambda d: language_model(d, 1600, 25, 6400, 12, 50257, uniform(1024), 4, 4),
    "gpt2_checkpointed": lambda d: language_model(d, 1600, 25, 6400, 24, 50257, uniform(1024), 4, 4, checkpoint=True),
    "gpt2_lengths": lambda d: language_model(d, 1600, 25, 6400, 12, 50257, varying(1024), 8, 10),
    "gpt2_lengths_checkpointed": lambda d: language_model(d, 1600, 25, 6400, 24, 50257, varying(2048), 8, 10, checkpoint=True),
    "gpt3_2.7b": lambda d: language_model(d, 2560, 32, 10240, 32, 50257, uniform(2048), 2, 2),
    "gpt2_foreach": lambda d: language_model(d, 1600, 25, 6400, 12, 50257, varying(1024), 8, 6, optimizer="foreach"),
    # Mixtral's ratio of widths and its eight experts: Jiang et al. 2024, table 1
    "experts": lambda d: language_model(d, 2048, 16, 7168, 6, 32000, varying(2048), 2, 10, gated=True, experts=8),
    # LLaMA 7B with adapters of rank 16 on the projections: Touvron et al. 2023, table 2; Hu et al. 2021
    "lora": lambda d: language_model(d, 4096, 32, 11008, 32, 32000, varying(1024), 2, 8, gated=True, trained=False, rank=16),
    "lora_checkpointed": lambda d: language_model(d, 4096, 32, 11008, 32, 32000, varying(2048), 4, 8, gated=True, trained=False, rank=16, checkpoint=True),
    # Rombach et al. 2022
    "diffusion": lambda d: diffusion(d, 8),
}


def snapshot_of(name, seed=1):
    device = Device(seed)
    MODELS[name](device)
    return device.snapshot()


def write(folder, name, seed=1):
    path = pathlib.Path(folder) / f"{name}.pickle"
    path.write_bytes(pickle.dumps(snapshot_of(name, seed), 4))
    return path


if __name__ == "__main__":
    for model in sys.argv[2:] or MODELS: print(write(sys.argv[1], model))
