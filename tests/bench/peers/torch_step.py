"""A step of training with halfstep, nn.LSTM, nn.GRU and the `sru` package: the same text, sizes and threads.

    torch_step.py LIBHALFSTEP THREADS ROUNDS [TEXT]              torch.sh prepares what it needs, and runs it

A step is forward, loss, backward, clipping and Adam, with the state carried along. All take turns in this process, so
that a busy machine is busy for all; printed are medians of rounds. One thread is timed by its own clock, which stands
still while others use the processor; several by the wall's.
"""
import ctypes
import statistics
import sys
import time
import warnings
from ctypes import POINTER, Structure, byref, c_bool, c_char_p, c_double, c_int, c_int64, c_size_t, c_uint64, c_void_p

import torch

warnings.filterwarnings("ignore")  # of what the `sru` package uses and PyTorch has deprecated
import sru

LAYERS, HIDDEN, BATCH, LENGTH, VOCABULARY = 2, 512, 32, 128, 256
PRECISIONS = {"fp32": 0, "amp-bf16": 2}  # hst_precision_kind


class ContextOptions(Structure):  # the first fields of hst_options; the library takes what `size` says
    _fields_ = [("size", c_size_t), ("threads", c_int)]


class TrainOptions(Structure):  # the same of hst_train_options
    _fields_ = [("size", c_size_t), ("hidden", c_int64), ("layers", c_int), ("dropout", c_double), ("tied", c_bool),
                ("projection", c_int64), ("layer_norm", c_int), ("highway_bias", c_double), ("no_rescale", c_bool),
                ("tanh", c_bool), ("batch", c_int64), ("length", c_int64), ("fresh_share", c_double),
                ("steps", c_int64), ("seconds", c_double), ("epochs", c_double), ("optimizer", c_int), ("lr", c_double),
                ("schedule", c_int), ("warmup", c_double), ("floor", c_double), ("lr_step_every", c_double),
                ("lr_step_factor", c_double), ("clip", c_double), ("weight_decay", c_double), ("momentum", c_double),
                ("nesterov", c_bool), ("beta1", c_double), ("beta2", c_double), ("eps", c_double),
                ("accumulate", c_int64), ("ema", c_double), ("eval_every", c_int64), ("save_every", c_int64),
                ("patience", c_int64), ("seed", c_uint64), ("precision", c_int)]


class Halfstep:
    def __init__(self, library, threads, precision, text, steps):
        self.lib = ctypes.CDLL(library)
        for name, result, arguments in [
            ("hst_open", c_void_p, [POINTER(ContextOptions)]), ("hst_error", c_char_p, [c_void_p]),
            ("hst_isa", c_char_p, [c_void_p]), ("hst_version", c_char_p, []), ("hst_corpus_new", c_void_p, [c_void_p]),
            ("hst_corpus_add_bytes", c_int, [c_void_p, c_char_p, c_size_t]),
            ("hst_train_defaults", None, [POINTER(TrainOptions), c_size_t]),
            ("hst_trainer_new", c_void_p, [c_void_p, POINTER(TrainOptions), c_void_p, c_void_p]),
            ("hst_trainer_step", c_int, [c_void_p, POINTER(c_double)]),
        ]:
            function = getattr(self.lib, name)
            function.restype, function.argtypes = result, arguments
        self.ctx = self.lib.hst_open(byref(ContextOptions(ctypes.sizeof(ContextOptions), threads)))
        corpus = self.lib.hst_corpus_new(self.ctx)
        self.lib.hst_corpus_add_bytes(corpus, text, len(text))
        o = TrainOptions()
        self.lib.hst_train_defaults(byref(o), ctypes.sizeof(o))
        o.hidden, o.layers, o.batch, o.length = HIDDEN, LAYERS, BATCH, LENGTH
        o.steps, o.precision = steps, PRECISIONS[precision]
        self.trainer = self.lib.hst_trainer_new(self.ctx, byref(o), corpus, None)

    def step(self):
        loss = c_double()
        if self.lib.hst_trainer_step(self.trainer, byref(loss)):
            raise RuntimeError(self.lib.hst_error(self.ctx).decode())
        return loss.value

    def about(self):
        return f"halfstep {self.lib.hst_version().decode()}, {self.lib.hst_isa(self.ctx).decode()} kernels"


class Peer(torch.nn.Module):
    def __init__(self, layers, precision, text):
        super().__init__()
        self.embedding = torch.nn.Embedding(VOCABULARY, HIDDEN)
        self.layers = layers
        self.output = torch.nn.Linear(HIDDEN, VOCABULARY)
        self.optimizer = torch.optim.Adam(self.parameters(), lr=1e-3, **self.fastest())
        self.precision, self.state, self.at = precision, None, 0
        lane = (len(text) - 1) // BATCH
        symbols = torch.frombuffer(bytearray(text), dtype=torch.uint8).long()
        self.lanes = torch.stack([symbols[b * lane:(b + 1) * lane + 1] for b in range(BATCH)], 1)

    def fastest(self):
        """One pass over all parameters, where this PyTorch has it on the CPU."""
        try:
            torch.optim.Adam(self.parameters(), fused=True)
            return {"fused": True}
        except (TypeError, RuntimeError):
            return {}

    def step(self):
        if self.at + LENGTH + 1 > len(self.lanes):
            self.at = 0
        x, y = self.lanes[self.at:self.at + LENGTH], self.lanes[self.at + 1:self.at + LENGTH + 1]
        self.at += LENGTH
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=self.precision == "amp-bf16"):
            h, state = self.layers(self.embedding(x), self.state)
            logits = self.output(h)
            loss = torch.nn.functional.cross_entropy(logits.reshape(-1, VOCABULARY), y.reshape(-1))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.parameters(), 1.0)
        self.optimizer.step()
        self.state = tuple(s.detach() for s in state) if isinstance(state, tuple) else state.detach()
        return loss.item()


def made_up(count):
    return b"".join(b"line %d of the text, and half of the next\n" % i for i in range(count // 40 + 1))[:count]


def main(library, threads, rounds, path=None):
    threads, rounds = int(threads), int(rounds)
    torch.set_num_threads(threads)
    steps = rounds + 2
    text = open(path, "rb").read() if path else made_up(2 * BATCH * LENGTH * steps)
    kinds = {"nn.LSTM": lambda: torch.nn.LSTM(HIDDEN, HIDDEN, LAYERS),
             "nn.GRU": lambda: torch.nn.GRU(HIDDEN, HIDDEN, LAYERS),
             "sru": lambda: sru.SRU(HIDDEN, HIDDEN, LAYERS, layer_norm=True, rescale=True, highway_bias=-2)}
    ours = {("halfstep", p): Halfstep(library, threads, p, text, steps) for p in PRECISIONS}
    # On a processor without AVX-512, PyTorch's bf16 is emulated, or missing.
    theirs = list(PRECISIONS) if torch.ops.mkldnn._is_mkldnn_bf16_supported() else ["fp32"]
    peers = {(name, p): Peer(make(), p, text) for name, make in kinds.items() for p in theirs}
    print(f"{ours['halfstep', 'fp32'].about()}; torch {torch.__version__} (oneDNN "
          f"{'on' if torch.backends.mkldnn.is_available() else 'off'}), sru {sru.__version__}, "
          f"Python {sys.version.split()[0]}; {threads} threads")
    print(f"{LAYERS} layers of {HIDDEN}, batch {BATCH}, length {LENGTH}, bytes; tokens/s, median of {rounds} "
          "(least to most); ours by theirs in the same round", flush=True)
    now = time.thread_time if threads == 1 else time.perf_counter
    everyone = {**ours, **peers}
    rates = {who: [] for who in everyone}
    for i in range(-2, rounds):  # the first two warm up
        for who, model in everyone.items():
            time.sleep(0.1)  # threads that wait for more work by spinning give up
            began = now()
            model.step()
            if i >= 0:
                rates[who].append(BATCH * LENGTH / (now() - began))
    print(f"{'':10} {'':9} {'tokens/s':>9} {'':20} {'fp32':>7} {'amp-bf16':>9}")
    for who, r in rates.items():
        ratios = [statistics.median(a / b for a, b in zip(rates["halfstep", p], r)) for p in PRECISIONS]
        spread = f"({min(r):.0f} to {max(r):.0f})"
        print(f"{who[0]:10} {who[1]:9} {statistics.median(r):9.0f} {spread:20} {ratios[0]:7.2f} {ratios[1]:9.2f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
