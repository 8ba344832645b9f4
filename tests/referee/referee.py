"""An independent referee: the same weights and tokens in PyTorch; loss and every gradient must agree to 1e-5.

Usage: referee.py DUMP_PROGRAM. Run by ctest with Debian's python3 and python3-torch. It knows our files only by their
Hugging Face names and layouts, and writes each model in plain torch operations.
"""
import json
import math
import struct
import subprocess
import sys
import tempfile

try:
    import torch
    import torch.nn.functional as F
except ImportError:
    sys.exit("error: the referee needs PyTorch for /usr/bin/python3; install it: apt-get install python3-torch")


def read_safetensors(path):
    raw = open(path, "rb").read()
    (length,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8 : 8 + length])
    header.pop("__metadata__", None)
    data = raw[8 + length :]
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        assert entry["dtype"] == "F32"
        flat = torch.frombuffer(bytearray(data[begin:end]), dtype=torch.float32)
        tensors[name] = flat.reshape(entry["shape"]).clone().requires_grad_()
    return tensors


def attention(q, k, v):
    """q, k, v: [batch, heads, time, width]; causal."""
    time = q.shape[2]
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    mask = torch.ones(time, time, dtype=torch.bool).tril()
    return scores.masked_fill(~mask, float("-inf")).softmax(-1) @ v


def heads(x, n):
    return x.reshape(x.shape[0], x.shape[1], n, -1).transpose(1, 2)


def gpt2(w, c, ids):
    x = w["transformer.wte.weight"][ids] + w["transformer.wpe.weight"][torch.arange(ids.shape[1])]
    norm = lambda x, n: F.layer_norm(x, x.shape[-1:], w[n + ".weight"], w[n + ".bias"], c["epsilon"])
    conv = lambda x, n: x @ w[n + ".weight"] + w[n + ".bias"]
    for i in range(c["layers"]):
        h = f"transformer.h.{i}."
        q, k, v = conv(norm(x, h + "ln_1"), h + "attn.c_attn").chunk(3, -1)
        a = attention(*(heads(t, c["heads"]) for t in (q, k, v))).transpose(1, 2).flatten(2)
        x = x + conv(a, h + "attn.c_proj")
        u = conv(norm(x, h + "ln_2"), h + "mlp.c_fc")
        u = 0.5 * u * (1 + torch.tanh(math.sqrt(2 / math.pi) * (u + 0.044715 * u**3)))
        x = x + conv(u, h + "mlp.c_proj")
    return norm(x, "transformer.ln_f") @ w["transformer.wte.weight"].T


def llama(w, c, ids):
    def norm(x, n):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + c["epsilon"]) * w[n + ".weight"]

    def linear(x, n):
        return F.linear(x, w[n + ".weight"], w.get(n + ".bias"))

    half = c["head_width"] // 2
    angles = torch.arange(ids.shape[1])[:, None] * c["theta"] ** (-torch.arange(half) / half)

    def rope(x):
        a, b = x[..., :half], x[..., half:]
        cos, sin = angles.cos().float(), angles.sin().float()
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)

    x = w["model.embed_tokens.weight"][ids]
    for i in range(c["layers"]):
        h = f"model.layers.{i}."
        n = norm(x, h + "input_layernorm")
        q, k, v = (heads(linear(n, h + f"self_attn.{p}_proj"), c["heads"] if p == "q" else c["kv_heads"]) for p in "qkv")
        if h + "self_attn.q_norm.weight" in w:
            q, k = norm(q, h + "self_attn.q_norm"), norm(k, h + "self_attn.k_norm")
        group = c["heads"] // c["kv_heads"]
        a = attention(rope(q), rope(k).repeat_interleave(group, 1), v.repeat_interleave(group, 1))
        x = x + linear(a.transpose(1, 2).flatten(2), h + "self_attn.o_proj")
        n = norm(x, h + "post_attention_layernorm")
        x = x + linear(F.silu(linear(n, h + "mlp.gate_proj")) * linear(n, h + "mlp.up_proj"), h + "mlp.down_proj")
    head = w["model.embed_tokens.weight"] if c["tied"] else w["lm_head.weight"]
    return norm(x, "model.norm") @ head.T


def main():
    torch.manual_seed(0)
    failed = False
    for family in ("gpt2", "llama", "qwen2", "qwen3"):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([sys.argv[1], family, folder], check=True)
            case = json.load(open(folder + "/case.json"))
            weights = read_safetensors(folder + "/weights.safetensors")
            ours = read_safetensors(folder + "/gradients.safetensors")
        ids = torch.tensor(case["ids"]).reshape(-1, 16)
        labels = torch.tensor(case["labels"]).reshape(-1)
        logits = (gpt2 if family == "gpt2" else llama)(weights, case, ids)
        loss = F.cross_entropy(logits.flatten(0, 1), labels, ignore_index=-100)
        loss.backward()
        worst, where = abs(loss.item() - case["loss"]) / loss.item(), "loss"
        assert math.isfinite(worst)
        assert weights.keys() == ours.keys()
        greatest = max(w.grad.abs().max().item() for w in weights.values())
        for name, w in weights.items():
            # A gradient that is zero in theory (a key bias) is noise: measured against the greatest of all.
            scale = max(w.grad.abs().max().item(), 1e-2 * greatest)
            error = (w.grad - ours[name]).abs().max().item() / scale
            if not error <= worst:  # a NaN is the worst
                worst, where = error, name
        ok = worst <= 1e-5
        failed |= not ok
        print(f"{family}: {len(ours)} tensors, loss {loss.item():.6f}, worst relative error {worst:.1e} ({where}) {'ok' if ok else 'FAILED'}")
    sys.exit(1 if failed else 0)


main()
