"""One GPT-2 124M training step in PyTorch (Debian's 1.13.1), B 4, T 64, float32, AdamW: milliseconds, median of 7.

Run by bench/against_torch, which sets the thread variables that make it fair.
"""
import statistics
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
W, H, L, V, T, B = 768, 12, 12, 50257, 64, 4


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(W), nn.LayerNorm(W)
        self.qkv, self.out = nn.Linear(W, 3 * W), nn.Linear(W, W)
        self.up, self.down = nn.Linear(W, 4 * W), nn.Linear(4 * W, W)
        self.register_buffer("mask", torch.ones(T, T, dtype=torch.bool).tril())

    def forward(self, x):
        q, k, v = (t.view(B, T, H, W // H).transpose(1, 2) for t in self.qkv(self.n1(x)).split(W, -1))
        s = (q @ k.transpose(-1, -2) / (W // H) ** 0.5).masked_fill(~self.mask, float("-inf"))
        x = x + self.out((s.softmax(-1) @ v).transpose(1, 2).reshape(B, T, W))
        return x + self.down(F.gelu(self.up(self.n2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok, self.pos = nn.Embedding(V, W), nn.Embedding(1024, W)
        self.blocks, self.norm = nn.Sequential(*[Block() for _ in range(L)]), nn.LayerNorm(W)

    def forward(self, ids, labels):
        x = self.blocks(self.tok(ids) + self.pos(torch.arange(T)))
        logits = self.norm(x) @ self.tok.weight.T
        return F.cross_entropy(logits.view(-1, V), labels.view(-1))


model = Gpt()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1)
ids, labels = torch.randint(V, (B, T)), torch.randint(V, (B, T))


def step():
    optimizer.zero_grad(set_to_none=False)
    model(ids, labels).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()


for _ in range(2):
    step()
times = []
for _ in range(7):
    start = time.perf_counter()
    step()
    times.append(time.perf_counter() - start)
print(f"{1000 * statistics.median(times):.0f}")
