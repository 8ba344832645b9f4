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


def attention(q, k, v, scale=None, softcap=0, window=0, slopes=None):
    """q, k, v: [batch, heads, time, width]; causal."""
    time = q.shape[2]
    scores = q @ k.transpose(-1, -2) * (scale or 1 / math.sqrt(q.shape[-1]))
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    distance = torch.arange(time)[:, None] - torch.arange(time)[None, :]
    if slopes is not None:
        scores = scores - slopes[:, None, None] * distance
    seen = (distance >= 0) & (distance < (window or time))
    return scores.masked_fill(~seen, float("-inf")).softmax(-1) @ v


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
        a = attention(rope(q), rope(k).repeat_interleave(group, 1), v.repeat_interleave(group, 1), window=c["window"])
        x = x + linear(a.transpose(1, 2).flatten(2), h + "self_attn.o_proj")
        n = norm(x, h + "post_attention_layernorm")
        x = x + linear(F.silu(linear(n, h + "mlp.gate_proj")) * linear(n, h + "mlp.up_proj"), h + "mlp.down_proj")
    head = w["model.embed_tokens.weight"] if c["tied"] else w["lm_head.weight"]
    return norm(x, "model.norm") @ head.T


def rotary(x, theta, width):
    """Turns the first `width` elements of each head; x: [batch, heads, time, head width]."""
    half = width // 2
    angles = torch.arange(x.shape[2])[:, None] * theta ** (-torch.arange(half) / half)
    cos, sin = angles.cos().float(), angles.sin().float()
    a, b, rest = x[..., :half], x[..., half:width], x[..., width:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin, rest], -1)


def merged(x):
    return x.transpose(1, 2).flatten(2)


def olmo2(w, c, ids):
    norm = lambda x, n: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + c["epsilon"]) * w[n + ".weight"]
    group = c["heads"] // c["kv_heads"]
    x = w["model.embed_tokens.weight"][ids]
    for i in range(c["layers"]):
        h = f"model.layers.{i}."
        linear = lambda t, n: F.linear(t, w[h + n + ".weight"])
        q = norm(linear(x, "self_attn.q_proj"), h + "self_attn.q_norm")
        k = norm(linear(x, "self_attn.k_proj"), h + "self_attn.k_norm")
        q, k = (rotary(heads(t, n), c["theta"], c["head_width"]) for t, n in ((q, c["heads"]), (k, c["kv_heads"])))
        v = heads(linear(x, "self_attn.v_proj"), c["kv_heads"])
        a = attention(q, k.repeat_interleave(group, 1), v.repeat_interleave(group, 1))
        x = x + norm(linear(merged(a), "self_attn.o_proj"), h + "post_attention_layernorm")
        f = linear(F.silu(linear(x, "mlp.gate_proj")) * linear(x, "mlp.up_proj"), "mlp.down_proj")
        x = x + norm(f, h + "post_feedforward_layernorm")
    return norm(x, "model.norm") @ w["lm_head.weight"].T


def gemma2(w, c, ids):
    norm = lambda x, n: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + c["epsilon"]) * (1 + w[n + ".weight"])
    group = c["heads"] // c["kv_heads"]
    x = w["model.embed_tokens.weight"][ids] * c["embedding_scale"]
    for i in range(c["layers"]):
        h = f"model.layers.{i}."
        linear = lambda t, n: F.linear(t, w[h + n + ".weight"])
        n = norm(x, h + "input_layernorm")
        q, k, v = (heads(linear(n, f"self_attn.{p}_proj"), c["heads"] if p == "q" else c["kv_heads"]) for p in "qkv")
        q, k = rotary(q, c["theta"], c["head_width"]), rotary(k, c["theta"], c["head_width"])
        a = attention(q, k.repeat_interleave(group, 1), v.repeat_interleave(group, 1), c["scale"], c["softcap"],
                      c["window"] if c["slides"][i] else 0)
        x = x + norm(linear(merged(a), "self_attn.o_proj"), h + "post_attention_layernorm")
        n = norm(x, h + "pre_feedforward_layernorm")
        g = linear(n, "mlp.gate_proj")
        g = 0.5 * g * (1 + torch.tanh(math.sqrt(2 / math.pi) * (g + 0.044715 * g**3)))
        f = linear(g * linear(n, "mlp.up_proj"), "mlp.down_proj")
        x = x + norm(f, h + "post_feedforward_layernorm")
    logits = norm(x, "model.norm") @ w["model.embed_tokens.weight"].T
    return c["head_softcap"] * torch.tanh(logits / c["head_softcap"])


def gpt_neox(w, c, ids):
    norm = lambda x, n: F.layer_norm(x, x.shape[-1:], w[n + ".weight"], w[n + ".bias"], c["epsilon"])
    linear = lambda x, n: F.linear(x, w[n + ".weight"], w[n + ".bias"])
    x = w["gpt_neox.embed_in.weight"][ids]
    for i in range(c["layers"]):
        h = f"gpt_neox.layers.{i}."
        # Of every head in turn: its q, its k, its v.
        qkv = linear(norm(x, h + "input_layernorm"), h + "attention.query_key_value")
        qkv = qkv.reshape(*qkv.shape[:2], c["heads"], 3, c["head_width"]).permute(3, 0, 2, 1, 4)
        q, k = (rotary(t, c["theta"], c["rotary_width"]) for t in qkv[:2])
        a = linear(merged(attention(q, k, qkv[2])), h + "attention.dense")
        r = x if c["parallel"] else x + a
        f = linear(F.gelu(linear(norm(r, h + "post_attention_layernorm"), h + "mlp.dense_h_to_4h")), h + "mlp.dense_4h_to_h")
        x = x + a + f
    return norm(x, "gpt_neox.final_layer_norm") @ w["embed_out.weight"].T


def mpt(w, c, ids):
    bias = lambda n: w.get(n + ".bias")
    norm = lambda x, n: F.layer_norm(x, x.shape[-1:], w[n + ".weight"], bias(n), c["epsilon"])
    linear = lambda x, n: F.linear(x, w[n + ".weight"], bias(n))
    x = w["transformer.wte.weight"][ids]
    slopes = None
    if "transformer.wpe.weight" in w:
        x = x + w["transformer.wpe.weight"][torch.arange(ids.shape[1])]
    else:  # MPT's own way: slopes of the next power of two, the odd ones first
        n = 2 ** math.ceil(math.log2(c["heads"]))
        slopes = 1 / torch.pow(2, torch.arange(1, n + 1) * (8 / n))
        if n != c["heads"]:
            slopes = torch.cat([slopes[1::2], slopes[::2]])[: c["heads"]]
    for i in range(c["layers"]):
        h = f"transformer.blocks.{i}."
        q, k, v = linear(norm(x, h + "norm_1"), h + "attn.Wqkv").chunk(3, -1)
        a = attention(*(heads(t, c["heads"]) for t in (q, k, v)), slopes=slopes)
        x = x + linear(merged(a), h + "attn.out_proj")
        x = x + linear(F.gelu(linear(norm(x, h + "norm_2"), h + "ffn.up_proj")), h + "ffn.down_proj")
    return norm(x, "transformer.norm_f") @ w["transformer.wte.weight"].T


MODELS = {"gpt2": gpt2, "llama": llama, "qwen2": llama, "qwen3": llama, "mistral": llama, "olmo2": olmo2, "gemma2": gemma2,
          "gpt_neox": gpt_neox, "gpt_neox_serial": gpt_neox, "mpt": mpt, "mpt_alibi": mpt}


def main():
    torch.manual_seed(0)
    failed = False
    for family, model in MODELS.items():
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([sys.argv[1], family, folder], check=True)
            case = json.load(open(folder + "/case.json"))
            weights = read_safetensors(folder + "/weights/model.safetensors")
            ours = read_safetensors(folder + "/gradients/model.safetensors")
        ids = torch.tensor(case["ids"]).reshape(-1, 16)
        labels = torch.tensor(case["labels"]).reshape(-1)
        logits = model(weights, case, ids)
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


if __name__ == "__main__":
    main()
