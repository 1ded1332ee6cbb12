"""Flags that SGLang took away or renamed, and those of other engines, with what to write instead."""

from __future__ import annotations

# Only suggested where the installed SGLang knows the new one.
RENAMED = {
    "--speculative-dflash-draft-window-size": "--speculative-draft-window-size",
    "--speculative-draft": "--speculative-draft-model-path",
    "--enable-ep-moe": "--ep-size",
    "--enable-deepep-moe": "--moe-a2a-backend deepep",
    "--enable-flashinfer-cutlass-moe": "--moe-runner-backend flashinfer_cutlass",
    "--enable-flashinfer-trtllm-moe": "--moe-runner-backend flashinfer_trtllm",
    "--enable-triton-kernel-moe": "--moe-runner-backend triton_kernel",
    "--enable-flashinfer-mxfp4-moe": "--moe-runner-backend flashinfer_mxfp4",
    "--enable-flashinfer-mla": "--attention-backend flashinfer",
    "--enable-flashmla": "--attention-backend flashmla",
    "--mem-frac": "--mem-fraction-static",
    "--max-model-len": "--context-length",
    "--gpu-memory-utilization": "--mem-fraction-static",
    "--max-num-seqs": "--max-running-requests",
    "--enforce-eager": "--disable-cuda-graph",
    "--num-speculative-tokens": "--speculative-num-steps",
    "--speculative-config": "--speculative-algorithm",
    "--tool-parser": "--tool-call-parser",
    "--max-num-batched-tokens": "--chunked-prefill-size",
    "--enable-prefix-caching": "",
    "--speculative-skip-dp-mlp-sync": "",
    "--speculative-ngram-min-match-window-size": "",
    "--speculative-ngram-max-match-window-size": "",
    "--speculative-ngram-branch-length": "",
}
"""An empty text means: leave it out."""
