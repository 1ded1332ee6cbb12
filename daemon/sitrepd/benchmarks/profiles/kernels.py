"""What GPU kernels are for, by their names."""

from __future__ import annotations

import re
from functools import lru_cache

# The first that fits counts: a fused MoE kernel is one, although it multiplies matrices.
_PATTERNS = {
    "communication": "nccl|all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|nvshmem|deep_?ep|a2a|one_?shot"
    "|two_?shot|cross_device",
    "attention": "attention|attn|flash|fmha|mla_|_mla|decode_grouped|paged_?kv|prefillwith|decodewith|kernel_stage[12]"
    "|merge_state",
    "mixture of experts": "moe|expert|topk_?gating|topk_softmax|grouped_topk",
    "quantization": "dequant|quant|per_token|scaled_fp8|fp4_",
    "matrix products": "gemm|gemv|matmul|cutlass|cublas|nvjet|wgmma|marlin|split_?k|xmma|_dot_|addmm",
    "norms": "norm",
    "rotary embedding": "rotary|rope",
    "KV cache": "kv_?cache|reshape_and_cache|set_kv|kv_buffer|kv_indices",
    "sampling": "softmax|sampling|top_?k|top_?p|argmax|multinomial|radix_?sort|verify_tree|build_tree",
    "copies": "memcpy|memset|copy|catarray|gather|scatter|index|transpose|fill",
    "elementwise": "elementwise|act_and_mul|silu|gelu|sigmoid|reduce_kernel|cumsum|scan|arange",
}
_RULES = tuple((category, re.compile(pattern, re.IGNORECASE)) for category, pattern in _PATTERNS.items())


@lru_cache(maxsize=1 << 16)
def category(name: str) -> str:
    return next((category for category, pattern in _RULES if pattern.search(name)), "other kernels")
