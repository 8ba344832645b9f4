"""Folders in and out: what Sextant saves, PyTorch reads and continues alike; what PyTorch writes (sharded, in bfloat16 or
float16, with a tied head or without), Sextant reads; and a folder that is read and saved again has the same bits.

Usage: folders.py PROGRAM. Needs Debian's python3-torch; reads and writes safetensors by itself.
"""
import json
import os
import struct
import subprocess
import sys
import tempfile

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "referee"))
import referee  # noqa: E402

PROGRAM = sys.argv[1]
DTYPES = {"F32": torch.float32, "F64": torch.float64, "BF16": torch.bfloat16, "F16": torch.float16}
NAMES = {dtype: name for name, dtype in DTYPES.items()}
CONFIGS = {
    "gpt2": dict(model_type="gpt2", n_embd=16, n_layer=2, n_head=4, n_positions=64, vocab_size=257, activation_function="gelu_new",
                 attn_pdrop=0.1, resid_pdrop=0.0, embd_pdrop=0.0),
    "llama": dict(model_type="llama", hidden_size=16, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                  intermediate_size=24, vocab_size=257, max_position_embeddings=64, rms_norm_eps=1e-5),
    "gpt_neox": dict(model_type="gpt_neox", hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24,
                     vocab_size=257, max_position_embeddings=64, hidden_act="gelu"),
}
# Of the families that train, the others: what is trained is continued alike.
LLAMA = CONFIGS["llama"]
OTHERS = {
    "mistral": dict(LLAMA, model_type="mistral", sliding_window=5, head_dim=4),
    "qwen2": dict(LLAMA, model_type="qwen2", tie_word_embeddings=True),
    "qwen3": dict(LLAMA, model_type="qwen3", head_dim=4),
    "olmo2": dict(LLAMA, model_type="olmo2"),
    "gemma2": dict(LLAMA, model_type="gemma2", head_dim=4, query_pre_attn_scalar=16, attn_logit_softcapping=2.0,
                   final_logit_softcapping=3.0, sliding_window=5),
    "mpt": dict(model_type="mpt", d_model=16, n_layers=2, n_heads=4, max_seq_len=64, vocab_size=257),
}
RUN = """[model]
config = "{config}"
attention_dropout = 0
[workload]
sequence = 32
global_batch = 8
[plan]
[data]
train = "text.txt"
[optimizer]
kind = "sgd"
learning_rate = {rate}
[train]
steps = {steps}
output = "{output}"
shard_bytes = {shard}
"""


def read(path):
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header, data = json.loads(file.read(length)), file.read()
    header.pop("__metadata__", None)
    return {name: torch.frombuffer(bytearray(data[slice(*e["data_offsets"])]), dtype=DTYPES[e["dtype"]]).reshape(e["shape"])
            for name, e in header.items()}


def read_folder(folder):
    index = f"{folder}/model.safetensors.index.json"
    if not os.path.exists(index):
        return read(f"{folder}/model.safetensors")
    tensors = {}
    with open(index) as file:
        files = set(json.load(file)["weight_map"].values())
    for name in files:
        tensors.update(read(f"{folder}/{name}"))
    return tensors


def write(path, tensors):
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, t in tensors.items():
        raw = bytes(t.contiguous().view(torch.uint8).reshape(-1).tolist()) if t.numel() else b""
        header[name] = {"dtype": NAMES[t.dtype], "shape": list(t.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def write_folder(folder, config, tensors, shards):
    os.mkdir(folder)
    with open(f"{folder}/config.json", "w") as file:
        json.dump(config, file)
    names = sorted(tensors)
    if shards == 1:
        write(f"{folder}/model.safetensors", tensors)
        return
    where = {name: f"model-{i % shards + 1:05}-of-{shards:05}.safetensors" for i, name in enumerate(names)}
    for file in set(where.values()):
        write(f"{folder}/{file}", {n: tensors[n] for n in names if where[n] == file})
    total = sum(t.numel() * t.element_size() for t in tensors.values())
    with open(f"{folder}/model.safetensors.index.json", "w") as file:
        json.dump({"metadata": {"total_size": total}, "weight_map": where}, file)


def run(words, folder):
    result = subprocess.run([PROGRAM] + words, cwd=folder, capture_output=True, timeout=120)
    if result.returncode != 0:
        sys.exit(f"{words}: code {result.returncode}\n{result.stderr.decode()}")
    return result.stdout


def train(folder, config, output, steps=3, rate=0.1, shard=10**9, initial=None):
    with open(f"{folder}/run.toml", "w") as file:
        file.write(RUN.format(config=config, rate=rate, steps=steps, output=output, shard=shard))
        if initial:
            file.write(f'initial_weights = "{initial}"\n')
    run(["train", "run.toml"], folder)


def continued(family, config, tensors, prompt, tokens):
    """Greedy continuation in PyTorch."""
    weights = {n: t.float() for n, t in tensors.items()}
    layers, heads = (next(config[k] for k in keys if k in config)
                     for keys in (("n_layer", "n_layers", "num_hidden_layers"), ("n_head", "n_heads", "num_attention_heads")))
    case = dict(layers=layers, heads=heads, kv_heads=config.get("num_key_value_heads"), epsilon=config.get("rms_norm_eps", 1e-5),
                theta=1e4, tied="lm_head.weight" not in weights, window=config.get("sliding_window", 0), parallel=True, rotary_width=2,
                embedding_scale=4.0, scale=0.25, softcap=config.get("attn_logit_softcapping"), slides=[True, False],
                head_softcap=config.get("final_logit_softcapping"))
    case["head_width"] = 16 // case["heads"]
    ids = list(prompt)
    for _ in range(tokens):
        logits = referee.MODELS[family](weights, case, torch.tensor([ids]))[0, -1]
        ids.append(int(logits[:257].argmax()))
        if ids[-1] == 256:
            break
    return bytes(i for i in ids if i < 256)


def main():
    with tempfile.TemporaryDirectory() as parent:
        with open(f"{parent}/text.txt", "w") as file:
            file.write("In the beginning God created the heaven and the earth. " * 60)
        for family, config in CONFIGS.items():
            with open(f"{parent}/{family}.json", "w") as file:
                json.dump(config, file)
            # Ours in PyTorch, as one file and as many.
            for name, shard in (("one", 10**9), ("several", 5000)):
                out = f"{family}-{name}"
                train(parent, f"{family}.json", out, steps=30, rate=0.5, shard=shard)
                tensors = read_folder(f"{parent}/{out}")
                assert os.path.exists(f"{parent}/{out}/model.safetensors") == (name == "one")
                ours = run(["generate", out, "--prompt", "In the ", "--tokens", "12", "--temperature", "0"], parent)
                theirs = continued(family, config, tensors, b"In the ", 12)
                assert ours.rstrip(b"\n") == theirs, (family, name, ours, theirs)
            # Read and saved again without a step that changes anything: the same bits.
            train(parent, f"{family}-several", f"{family}-again", steps=1, rate=0, initial=f"{family}-several")
            again = read_folder(f"{parent}/{family}-again")
            assert again.keys() == tensors.keys()
            assert all(torch.equal(again[n].view(torch.int32), tensors[n].view(torch.int32)) for n in tensors), family
            # Theirs in ours.
            for dtype in (torch.bfloat16, torch.float16, torch.float32):
                for shards in (1, 3):
                    theirs = {n: t.to(dtype) for n, t in tensors.items()}
                    if family == "gpt2" and shards == 3:  # as older files have it: no prefix, the head stored, a mask
                        theirs = {n.replace("transformer.", ""): t for n, t in theirs.items()}
                        theirs["lm_head.weight"] = theirs["wte.weight"].clone()
                        theirs["h.0.attn.bias"] = torch.ones(1, 1, 64, 64, dtype=dtype).tril()
                    folder = f"{family}-{NAMES[dtype]}-{shards}"
                    write_folder(f"{parent}/{folder}", config, theirs, shards)
                    ours = run(["generate", folder, "--prompt", "In the ", "--tokens", "12", "--temperature", "0"], parent)
                    expected = continued(family, config, {n: t.to(dtype) for n, t in tensors.items()}, b"In the ", 12)
                    assert ours.rstrip(b"\n") == expected, (folder, ours, expected)
                    train(parent, folder, f"{folder}-trained", steps=2, initial=folder)
            print(f"{family}: ok")
        for family, config in OTHERS.items():
            with open(f"{parent}/{family}.json", "w") as file:
                json.dump(config, file)
            train(parent, f"{family}.json", family, steps=150, rate=0.5)
            ours = run(["generate", family, "--prompt", "In the ", "--tokens", "12", "--temperature", "0"], parent)
            theirs = continued(family, config, read_folder(f"{parent}/{family}"), b"In the ", 12)
            assert ours.rstrip(b"\n") == theirs, (family, ours, theirs)
            print(f"{family}: ok")


main()
