# SPDX-License-Identifier: MIT
"""Nine trainings and generations of real models, with random weights and data: nothing is
downloaded.

A workload is made for a device and a size, "full" for a large GPU or "tiny" for a processor, and
does one step at a time. Step number i does the same work in every process: its shapes come from a
random generator of its own, its data from torch's, seeded by i. `step` returns a tensor: the loss,
or what was generated. What of it is equal to the last bit is for the caller to compare.
"""
import random

import torch
from torch import nn
from torch.nn import functional

REGISTRY = {}


def workload(name, deterministic=True):
    """Registers a class under a name. `deterministic`: PyTorch has a deterministic kernel for all
    that it calls."""

    def register(cls):
        cls.name, cls.deterministic = name, deterministic
        REGISTRY[name] = cls
        return cls

    return register


class Workload:
    """What all have: a device, shapes per step, an optimizer step."""

    def __init__(self, device, full, **options):
        self.device, self.full, self.options = device, full, options
        torch.manual_seed(7)
        self.build()

    def shapes(self, step):
        return random.Random(f"{self.name}/{step}")

    def autocast(self):
        return torch.autocast(self.device.type, dtype=torch.bfloat16)

    def seed(self, step):
        torch.manual_seed(100003 + step)

    def tokens(self, vocabulary, *shape):
        return torch.randint(vocabulary, shape, device=self.device)

    def optimize(self, model, rate=1e-4):
        kinds = [p for p in model.parameters() if p.requires_grad]
        return torch.optim.AdamW(kinds, lr=rate)

    def advance(self, loss):
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    def trained(self):
        """The model whose parameters tell whether two runs went the same way."""
        return self.model


@workload("vit")
class Vit(Workload):
    """ViT-B/16, bf16 autocast; partial batches, and an evaluation at twice the batch in between."""

    def build(self):
        self.batch = self.options.get("batch") or (128 if self.full else 2)
        if self.full:
            import timm

            self.model = timm.create_model("vit_base_patch16_224", num_classes=1000)
        else:
            from torchvision.models import VisionTransformer

            self.model = VisionTransformer(32, 16, 2, 2, 32, 64, num_classes=1000)
        self.side = 224 if self.full else 32
        self.model.to(self.device).train()
        self.optimizer = self.optimize(self.model)

    def images(self, count):
        return torch.randn(count, 3, self.side, self.side, device=self.device)

    def step(self, step):
        self.seed(step)
        if step % 6 == 4:
            self.evaluate()
        count = self.batch if step % 3 else max(1, self.shapes(step).randint(1, self.batch))
        if step == 0:
            count = self.batch
        labels = self.tokens(1000, count)
        with self.autocast():
            loss = functional.cross_entropy(self.model(self.images(count)), labels)
        return self.advance(loss)

    def evaluate(self):
        self.model.eval()
        with torch.no_grad(), self.autocast():
            self.model(self.images(2 * self.batch))
        self.model.train()


@workload("bert")
class Bert(Workload):
    """BERT-large, masked words; lengths of 24 to 512, gradient checkpointing from the eighth
    step."""

    def build(self):
        from transformers import BertConfig, BertForMaskedLM

        large = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16,
                 "intermediate_size": 4096}
        tiny = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
                "intermediate_size": 64, "vocab_size": 500}
        self.config = BertConfig(**(large if self.full else tiny))
        self.model = BertForMaskedLM(self.config).to(self.device).train()
        self.optimizer = self.optimize(self.model)
        self.batch = 16 if self.full else 2

    def step(self, step):
        self.seed(step)
        if step == 8:
            self.model.gradient_checkpointing_enable({"use_reentrant": False})
        length = self.shapes(step).randint(24, 512) if self.full else 8 + step % 8
        words = self.tokens(self.config.vocab_size, self.batch, length)
        with self.autocast():
            loss = self.model(input_ids=words, labels=words).loss
        return self.advance(loss)


@workload("gpt2")
class Gpt2(Workload):
    """GPT-2 medium, random lengths, two batches a step."""

    def build(self):
        from transformers import GPT2Config, GPT2LMHeadModel

        medium = {"n_embd": 1024, "n_layer": 24, "n_head": 16}
        tiny = {"n_embd": 32, "n_layer": 2, "n_head": 2, "vocab_size": 500}
        self.config = GPT2Config(use_cache=False, **(medium if self.full else tiny))
        self.model = GPT2LMHeadModel(self.config).to(self.device).train()
        self.optimizer = self.optimize(self.model)

    def step(self, step):
        self.seed(step)
        shapes, total = self.shapes(step), 0
        for part in range(2):
            length = shapes.randint(64, 1024) if self.full else shapes.randint(4, 16)
            words = self.tokens(self.config.vocab_size, 4 if self.full else 2, length)
            with self.autocast():
                loss = self.model(input_ids=words, labels=words).loss / 2
            total = total + loss.detach()
            if part == 0:
                loss.backward()
        self.advance(loss)
        return total


def llama(full):
    """A Llama of 1.1 thousand million parameters, or a tiny one."""
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {"hidden_size": 2048, "num_hidden_layers": 22, "num_attention_heads": 32,
             "num_key_value_heads": 4, "intermediate_size": 5632, "vocab_size": 32000}
    tiny = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
            "num_key_value_heads": 2, "intermediate_size": 64, "vocab_size": 500}
    config = LlamaConfig(**(sizes if full else tiny), pad_token_id=0, bos_token_id=1,
                         eos_token_id=2)
    return LlamaForCausalLM(config)


@workload("lora")
class Lora(Workload):
    """The Llama with LoRA on the queries and values, gradient checkpointing, random lengths."""

    def build(self):
        from peft import LoraConfig, get_peft_model

        model = llama(self.full).to(self.device, torch.bfloat16)
        model.config.use_cache = False
        model.gradient_checkpointing_enable({"use_reentrant": False})
        self.model = get_peft_model(model, LoraConfig(r=16, lora_alpha=32, lora_dropout=0.0,
                                                      target_modules=["q_proj", "v_proj"])).train()
        self.vocabulary = model.config.vocab_size
        self.optimizer = self.optimize(self.model)

    def step(self, step):
        self.seed(step)
        shapes = self.shapes(step)
        length = shapes.randint(64, 1024) if self.full else shapes.randint(4, 16)
        words = self.tokens(self.vocabulary, 4 if self.full else 2, length)
        return self.advance(self.model(input_ids=words, labels=words).loss)


@workload("generate")
class Generate(Workload):
    """The Llama generates for batches of random size, its cache of keys and values growing."""

    def build(self):
        self.model = llama(self.full).to(self.device, torch.bfloat16).eval()
        self.new = 24 if self.full else 3

    def step(self, step):
        self.seed(step)
        shapes = self.shapes(step)
        batch = shapes.randint(1, 16) if self.full else 2
        length = shapes.randint(16, 384) if self.full else 5
        words = self.tokens(self.model.config.vocab_size - 3, batch, length) + 3
        with torch.no_grad():
            return self.model.generate(words, attention_mask=torch.ones_like(words),
                                       do_sample=False, max_new_tokens=self.new,
                                       min_new_tokens=self.new, pad_token_id=0)


@workload("maskrcnn", deterministic=False)
class MaskRcnn(Workload):
    """Mask R-CNN, ResNet-50, random sizes of image and numbers of objects."""

    def build(self):
        from torchvision.models import detection

        sides = {"min_size": 640, "max_size": 1066} if self.full else {"min_size": 64,
                                                                       "max_size": 96}
        self.model = detection.maskrcnn_resnet50_fpn(weights=None, weights_backbone=None,
                                                     num_classes=21, **sides)
        self.model.to(self.device).train()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-4, momentum=0.9)

    def sample(self, shapes):
        low, high = (480, 900) if self.full else (64, 96)
        height, width = shapes.randint(low, high), shapes.randint(low, high)
        count = shapes.randint(1, 24 if self.full else 3)
        corner = torch.tensor([[shapes.uniform(0, width * 0.6), shapes.uniform(0, height * 0.6)]
                               for _ in range(count)])
        reach = torch.tensor([[shapes.uniform(8, width * 0.4), shapes.uniform(8, height * 0.4)]
                              for _ in range(count)])
        target = {"boxes": torch.cat([corner, corner + reach], 1).to(self.device),
                  "labels": torch.randint(1, 21, (count,), device=self.device),
                  "masks": torch.randint(0, 2, (count, height, width), dtype=torch.uint8,
                                         device=self.device)}
        return torch.rand(3, height, width, device=self.device), target

    def step(self, step):
        self.seed(step)
        shapes = self.shapes(step)
        images, targets = zip(*[self.sample(shapes) for _ in range(4 if self.full else 1)])
        return self.advance(sum(self.model(list(images), list(targets)).values()))


class Experts(nn.Module):
    """A layer whose tokens go to the two experts that the router likes best."""

    def __init__(self, width, experts):
        super().__init__()
        self.norm, self.route = nn.LayerNorm(width), nn.Linear(width, experts)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
            for _ in range(experts))

    def forward(self, tokens):
        hidden = self.norm(tokens)
        weight, chosen = self.route(hidden).float().softmax(-1).topk(2, -1)
        out = torch.zeros_like(tokens)
        for number, expert in enumerate(self.experts):
            rows, place = (chosen == number).nonzero(as_tuple=True)
            part = expert(hidden[rows]) * weight[rows, place, None].to(tokens.dtype)
            out = out.index_add(0, rows, part.to(tokens.dtype))
        return tokens + out


@workload("moe")
class Moe(Workload):
    """A mixture of experts: the number of tokens of each expert is random."""

    def build(self):
        width, layers, experts = (1024, 6, 8) if self.full else (16, 2, 4)
        self.width = width
        self.model = nn.Sequential(*[Experts(width, experts) for _ in range(layers)])
        self.model.to(self.device).train()
        self.optimizer = self.optimize(self.model)

    def step(self, step):
        self.seed(step)
        shapes = self.shapes(step)
        count = shapes.randint(4096, 12288) if self.full else shapes.randint(8, 32)
        tokens = torch.randn(count, self.width, device=self.device)
        with self.autocast():
            loss = (self.model(tokens) - tokens.roll(1, 0)).float().square().mean()
        return self.advance(loss)


@workload("streams")
class Streams(Workload):
    """An MLP; batches come on one side stream, gradients leave on another, record_stream on
    both."""

    def build(self):
        width, layers = (4096, 8) if self.full else (16, 2)
        self.width, self.batch = width, 4096 if self.full else 8
        parts = []
        for _ in range(layers):
            parts += [nn.Linear(width, width), nn.GELU()]
        self.model = nn.Sequential(*parts).to(self.device).train()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3)
        self.gpu = self.device.type == "cuda"
        self.host = torch.empty(2 * self.batch, width, pin_memory=self.gpu).normal_()
        self.kept = [torch.empty(width, width, pin_memory=self.gpu) for _ in range(layers)]
        self.coming = torch.cuda.Stream() if self.gpu else None
        self.leaving = torch.cuda.Stream() if self.gpu else None
        self.next = self.prefetch(0)

    def prefetch(self, step):
        count = self.shapes(step).randint(self.batch // 2, self.batch)
        source = self.host[step % self.batch:][:count]
        if not self.gpu:
            return source.clone()
        with torch.cuda.stream(self.coming):
            return source.to(self.device, non_blocking=True)

    def take(self, step):
        here = self.next
        if self.gpu:
            torch.cuda.current_stream().wait_stream(self.coming)
            here.record_stream(torch.cuda.current_stream())
        self.next = self.prefetch(step + 1)
        return here

    def give(self):
        """Copies the gradients to the host beside what comes next."""
        if not self.gpu:
            return
        self.leaving.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.leaving):
            for kept, layer in zip(self.kept, self.model[::2]):
                kept.copy_(layer.weight.grad, non_blocking=True)
                layer.weight.grad.record_stream(self.leaving)

    def step(self, step):
        self.seed(step)
        batch = self.take(step)
        with self.autocast():
            loss = self.model(batch).float().square().mean()
        loss.backward()
        self.give()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.detach()


class Residual(nn.Module):
    """Two convolutions around the step's embedding, and a way past them."""

    def __init__(self, inside, outside, embedding):
        super().__init__()
        self.first = nn.Sequential(nn.GroupNorm(4, inside), nn.SiLU(),
                                   nn.Conv2d(inside, outside, 3, padding=1))
        self.time = nn.Linear(embedding, outside)
        self.second = nn.Sequential(nn.GroupNorm(4, outside), nn.SiLU(),
                                    nn.Conv2d(outside, outside, 3, padding=1))
        self.past = nn.Identity() if inside == outside else nn.Conv2d(inside, outside, 1)

    def forward(self, image, time):
        hidden = self.first(image) + self.time(time)[:, :, None, None]
        return self.past(image) + self.second(hidden)


class Attend(nn.Module):
    """Attention among the pixels of a small picture."""

    def __init__(self, width, heads=4):
        super().__init__()
        self.heads, self.norm = heads, nn.GroupNorm(4, width)
        self.into, self.out = nn.Conv2d(width, 3 * width, 1), nn.Conv2d(width, width, 1)

    def forward(self, image):
        count, width, high, wide = image.shape
        parts = self.into(self.norm(image)).view(count, 3, self.heads, width // self.heads, -1)
        query, key, value = parts.transpose(-1, -2).unbind(1)
        seen = functional.scaled_dot_product_attention(query, key, value)
        return image + self.out(seen.transpose(-1, -2).reshape(count, width, high, wide))


class Unet(nn.Module):
    """A diffusion U-Net: three scales, attention on the smallest."""

    def __init__(self, base):
        super().__init__()
        embedding, widths = 4 * base, (base, 2 * base, 4 * base)
        self.time = nn.Sequential(nn.Linear(1, embedding), nn.SiLU(),
                                  nn.Linear(embedding, embedding))
        self.enter = nn.Conv2d(4, base, 3, padding=1)
        self.down = nn.ModuleList(Residual(a, b, embedding)
                                  for a, b in zip((base,) + widths[:-1], widths))
        self.middle, self.attend = Residual(4 * base, 4 * base, embedding), Attend(4 * base)
        self.up = nn.ModuleList(Residual(2 * a, b, embedding)
                                for a, b in zip(widths[::-1], (2 * base, base, base)))
        self.leave = nn.Conv2d(base, 4, 3, padding=1)

    def forward(self, image, time):
        time, hidden, kept = self.time(time[:, None]), self.enter(image), []
        for part in self.down:
            hidden = part(hidden, time)
            kept.append(hidden)
            hidden = functional.avg_pool2d(hidden, 2)
        hidden = self.attend(self.middle(hidden, time))
        for part in self.up:
            hidden = hidden.repeat_interleave(2, 2).repeat_interleave(2, 3)
            hidden = part(torch.cat([hidden, kept.pop()], 1), time)
        return self.leave(hidden)


@workload("unet")
class UnetBuckets(Workload):
    """The U-Net over nine aspect ratios of about the same area."""

    BUCKETS = [(64, 64), (56, 72), (72, 56), (48, 80), (80, 48), (40, 96), (96, 40), (32, 128),
               (128, 32)]

    def build(self):
        self.model = Unet(192 if self.full else 8).to(self.device).train()
        self.optimizer = self.optimize(self.model)
        self.batch = 16 if self.full else 1

    def step(self, step):
        self.seed(step)
        high, wide = self.shapes(step).choice(self.BUCKETS)
        clean = torch.randn(self.batch, 4, high, wide, device=self.device)
        noise, time = torch.randn_like(clean), torch.rand(self.batch, device=self.device)
        mixed = clean + noise * time[:, None, None, None]
        with self.autocast():
            loss = functional.mse_loss(self.model(mixed, time).float(), noise)
        return self.advance(loss)
