"""The figures of public architectures, as their makers print them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sitrepd.modelcards.card import Card, made
from sitrepd.modelcards.fit import Asked, fit


def _llama(hidden: int, inner: int, layers: int, heads: int, **more: Any) -> dict[str, Any]:
    return {
        "model_type": "llama", "hidden_size": hidden, "intermediate_size": inner, "num_hidden_layers": layers,
        "num_attention_heads": heads, "num_key_value_heads": 8, "vocab_size": 128256, **more,
    }  # fmt: skip


_LATENT = {
    "hidden_size": 7168, "intermediate_size": 18432, "moe_intermediate_size": 2048, "num_hidden_layers": 61,
    "n_shared_experts": 1, "num_experts_per_tok": 8, "moe_layer_freq": 1, "kv_lora_rank": 512, "q_lora_rank": 1536,
    "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "topk_method": "noaux_tc",
}  # fmt: skip
_QWEN_MOE = {
    "model_type": "qwen3_moe", "num_key_value_heads": 4, "head_dim": 128, "vocab_size": 151936, "num_experts": 128,
    "num_experts_per_tok": 8, "decoder_sparse_step": 1, "mlp_only_layers": [], "tie_word_embeddings": False,
}  # fmt: skip
_GPT_OSS = {
    "model_type": "gpt_oss", "hidden_size": 2880, "intermediate_size": 2880, "num_attention_heads": 64,
    "num_key_value_heads": 8, "head_dim": 64, "num_experts_per_tok": 4, "vocab_size": 201088, "sliding_window": 128,
    "attention_bias": True, "max_position_embeddings": 131072, "quantization_config": {"quant_method": "mxfp4"},
}  # fmt: skip
CONFIGS: dict[str, dict[str, Any]] = {
    "Llama 3 8B": _llama(4096, 14336, 32, 32),
    "Llama 3.1 70B": _llama(8192, 28672, 80, 64),
    "Llama 3.1 405B": _llama(16384, 53248, 126, 128),
    "Llama 3.2 1B": _llama(2048, 8192, 16, 32, head_dim=64, tie_word_embeddings=True),
    "Llama 2 7B": _llama(4096, 11008, 32, 32) | {"num_key_value_heads": 32, "vocab_size": 32000},
    "Mistral 7B": _llama(4096, 14336, 32, 32, sliding_window=4096, max_position_embeddings=32768)
    | {"model_type": "mistral", "vocab_size": 32000},
    "Mixtral 8x7B": _llama(4096, 14336, 32, 32, num_local_experts=8, num_experts_per_tok=2)
    | {"model_type": "mixtral", "vocab_size": 32000},
    "Qwen2.5 7B": {
        "model_type": "qwen2", "hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28,
        "num_attention_heads": 28, "num_key_value_heads": 4, "vocab_size": 152064, "use_sliding_window": False,
        "sliding_window": 131072, "max_window_layers": 28,
    },
    "Qwen3 8B": {
        "model_type": "qwen3", "hidden_size": 4096, "intermediate_size": 12288, "num_hidden_layers": 36, "head_dim": 128,
        "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 151936, "sliding_window": None,
    },
    "Qwen3 30B-A3B": _QWEN_MOE | {
        "hidden_size": 2048, "intermediate_size": 6144, "moe_intermediate_size": 768, "num_hidden_layers": 48,
        "num_attention_heads": 32,
    },
    "Qwen3 235B-A22B": _QWEN_MOE | {
        "hidden_size": 4096, "intermediate_size": 12288, "moe_intermediate_size": 1536, "num_hidden_layers": 94,
        "num_attention_heads": 64,
    },
    "DeepSeek V2 Lite": {
        "model_type": "deepseek_v2", "hidden_size": 2048, "intermediate_size": 10944, "moe_intermediate_size": 1408,
        "num_hidden_layers": 27, "num_attention_heads": 16, "n_routed_experts": 64, "n_shared_experts": 2,
        "num_experts_per_tok": 6, "first_k_dense_replace": 1, "kv_lora_rank": 512, "q_lora_rank": None,
        "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "vocab_size": 102400,
    },
    "DeepSeek V3": _LATENT | {
        "model_type": "deepseek_v3", "num_attention_heads": 128, "n_routed_experts": 256, "first_k_dense_replace": 3,
        "vocab_size": 129280, "num_nextn_predict_layers": 1, "quantization_config": {"quant_method": "fp8"},
    },
    "Kimi K2": _LATENT | {
        "model_type": "kimi_k2", "num_attention_heads": 64, "n_routed_experts": 384, "first_k_dense_replace": 1,
        "vocab_size": 163840,
    },
    "gpt-oss 20b": _GPT_OSS | {"num_hidden_layers": 24, "num_local_experts": 32},
    "gpt-oss 120b": _GPT_OSS | {"num_hidden_layers": 36, "num_local_experts": 128},
    "Gemma 2 9B": {
        "model_type": "gemma2", "hidden_size": 3584, "intermediate_size": 14336, "num_hidden_layers": 42,
        "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 256, "vocab_size": 256000,
        "sliding_window": 4096,
    },
    "Gemma 3 27B": {
        "model_type": "gemma3",
        "text_config": {
            "model_type": "gemma3_text", "hidden_size": 5376, "intermediate_size": 21504, "num_hidden_layers": 62,
            "num_attention_heads": 32, "num_key_value_heads": 16, "head_dim": 128, "sliding_window": 1024,
        },
    },
}  # fmt: skip


def card(name: str) -> Card:
    return made(Path("/models/m"), name, CONFIGS[name], [], 0)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("Llama 3 8B", 8_030_261_248), ("Llama 3.1 70B", 70_553_706_496), ("Llama 3.1 405B", 405_853_388_800),
        ("Llama 3.2 1B", 1_235_814_400), ("Llama 2 7B", 6_738_415_616), ("Mistral 7B", 7_241_732_096),
        ("Mixtral 8x7B", 46_702_792_704), ("Qwen2.5 7B", 7_615_616_512), ("Qwen3 8B", 8_190_735_360),
        ("Qwen3 30B-A3B", 30_532_122_624), ("Qwen3 235B-A22B", 235_093_634_560),
        ("DeepSeek V2 Lite", 15_706_484_224), ("DeepSeek V3", 671_026_419_200), ("Gemma 2 9B", 9_241_705_984),
        ("Gemma 3 27B", 27_009_346_304),
    ],
)  # fmt: skip
def test_parameters_to_the_last_one(name: str, parameters: int) -> None:
    assert card(name).parameters == parameters


@pytest.mark.parametrize(
    ("name", "total", "active", "with_embedding"),
    [
        ("Mixtral 8x7B", 46.7, 12.9, True), ("Qwen3 30B-A3B", 30.5, 3.3, True), ("Qwen3 235B-A22B", 235.0, 22.0, True),
        ("DeepSeek V3", 671.0, 37.0, False), ("Kimi K2", 1026.0, 32.0, False), ("DeepSeek V2 Lite", 15.7, 2.4, False),
        # OpenAI counts the output table alone.
        ("gpt-oss 20b", 20.91, 3.61, False), ("gpt-oss 120b", 116.83, 5.13, False),
    ],
)  # fmt: skip
def test_what_one_token_uses_of_a_mixture(name: str, total: float, active: float, with_embedding: bool) -> None:
    found = card(name)
    used = found.active_parameters if with_embedding else found.details["parameters"]["active_without_embedding"]
    assert found.parameters / 1e9 == pytest.approx(total, rel=0.002)  # type: ignore[operator]
    assert used / 1e9 == pytest.approx(active, rel=0.025)


@pytest.mark.parametrize(
    ("name", "attention", "bf16"),
    [
        ("Llama 2 7B", "MHA", 524288), ("Llama 3 8B", "GQA", 131072), ("Llama 3.1 70B", "GQA", 327680),
        ("Qwen3 8B", "GQA", 147456), ("Qwen3 30B-A3B", "GQA", 98304), ("Mixtral 8x7B", "GQA", 131072),
        ("DeepSeek V3", "MLA", 70272), ("Kimi K2", "MLA", 70272), ("DeepSeek V2 Lite", "MLA", 31104),
        ("gpt-oss 120b", "GQA", 73728), ("Gemma 2 9B", "GQA", 344064),
    ],
)  # fmt: skip
def test_bytes_of_a_token_at_each_type(name: str, attention: str, bf16: int) -> None:
    found = card(name)
    assert found.details["attention"] == attention
    assert found.kv_bytes_per_token == bf16
    told = found.details["kv"]["bytes_per_token"]
    assert told == {"bf16": bf16, "fp16": bf16, "fp8": bf16 // 2, "fp4": bf16 // 4, "fp32": bf16 * 2}


@pytest.mark.parametrize(
    ("name", "layers", "window", "beyond"),
    [
        ("gpt-oss 120b", 18, 128, 36864), ("Gemma 2 9B", 21, 4096, 172032), ("Gemma 3 27B", 52, 1024, 163840 // 2),
        ("Mistral 7B", 32, 4096, 0),
    ],
)  # fmt: skip
def test_layers_with_a_window(name: str, layers: int, window: int, beyond: int) -> None:
    found = card(name).details
    assert found["sliding"] == {"layers": layers, "window": window}
    assert found["kv"]["beyond_window"] == beyond


def test_a_window_that_is_switched_off_or_no_shorter_than_the_context_is_none() -> None:
    assert "sliding" not in card("Qwen2.5 7B").details
    wide = CONFIGS["Mistral 7B"] | {"sliding_window": 32768}
    assert "sliding" not in made(Path("/m"), "m", wide, [], 0).details


def test_heads_are_kept_whole_and_a_latent_by_every_rank() -> None:
    asked = {tp: Asked(100 << 30, 0.9, tp) for tp in (1, 8, 16)}
    llama, kimi = card("Llama 3 8B").details, card("Kimi K2").details
    assert [fit(llama, 0, one).token_bytes for one in asked.values()] == [131072, 16384, 16384]
    assert [fit(kimi, 0, one).token_bytes for one in asked.values()] == [70272, 70272, 70272]


def test_experts_and_quantization() -> None:
    found = card("DeepSeek V3")
    assert found.details["experts"] | {"shared_parameters": 0} == {
        "count": 256, "used": 8, "layers": 58, "parameters_each": 44040192, "shared": 1, "shared_parameters": 0,
    }  # fmt: skip
    assert found.quantization == "FP8"
    assert card("gpt-oss 20b").quantization == "MXFP4"
    packed = {
        "quant_method": "compressed-tensors",
        "config_groups": {"group_0": {"weights": {"num_bits": 4, "type": "int"}}},
    }
    kimi = {"model_type": "kimi_k25", "text_config": CONFIGS["Kimi K2"] | {"quantization_config": packed}}
    assert made(Path("/m"), "m", kimi, [], 0).quantization == "INT4 (compressed-tensors)"
    awq = CONFIGS["Qwen3 8B"] | {"quantization_config": {"quant_method": "awq", "bits": 4}}
    assert made(Path("/m"), "m", awq, [], 0).quantization == "INT4 (awq)"


def test_a_type_that_is_not_known_is_said_to_be_a_guess() -> None:
    found = made(Path("/m"), "m", CONFIGS["Llama 3 8B"] | {"model_type": "novel"}, [], 0)
    assert found.details["notes"][0] == "Parameters are counted as of a Llama: novel is not known here."
